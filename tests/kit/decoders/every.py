"""All rows of the table of decoders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.decoders import files, logs, settings, state, tokens, wire

if TYPE_CHECKING:
    from kit.decoders.table import Decoder


def every_decoder() -> list[Decoder]:
    """The rows of every room, with the encodings that they are tried with."""
    return [row for room in (wire, logs, state, files, settings, tokens) for row in room.rows()]
