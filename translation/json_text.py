"""Parse JSON that another program may have written: in a broker's record, or in a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def parse_json(text: str | bytes, made_of: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Any:
    """The value of a JSON text, in UTF-8 where it is bytes.

    Args:
        text: The JSON.
        made_of: Makes an object of its keys and values, of which some may have one key; None: the last one counts.

    Raises:
        ValueError: It is no JSON, nested too deeply, or has half a surrogate pair, which no text can hold.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        value = json.loads(text, object_pairs_hook=made_of)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    return value
