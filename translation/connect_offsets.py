"""Decode what other programs have written as JSON: Kafka Connect's stored offsets of MirrorMaker 2."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mmtool.translation.mm2_records import MalformedRecord
from mmtool.translation.types import UNKNOWN, TopicPartition, Unknown, UpstreamOffset


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


CONNECTOR: Final = "MirrorSourceConnector"
"""The name that dedicated MirrorMaker 2 gives to the connector that copies records.

Strimzi puts the flow in front, ``A->B.MirrorSourceConnector``; in other Connect clusters it has any name.
"""


_PLACE = {"cluster", "partition", "topic"}
"""The fields in the keys of the connector that copies records (`MirrorUtils.wrapPartition`)."""


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """MM2's stored progress in one partition.

    Attributes:
        topic_partition: By its name on the source.
        last: The last record that was replicated; UNKNOWN where the stored offset was deleted, or has no value.
    """

    topic_partition: TopicPartition
    last: UpstreamOffset | Unknown


def decode_position(
    key: bytes | None,
    value: bytes | None,
    source_alias: str,
    target_alias: str,
    *,
    cluster: str | None = None,
) -> SourcePosition | MalformedRecord | None:
    """MM2's progress in a record of Connect's offsets topic; None if it is of another connector or another flow.

    Args:
        key: The record's key: connector and partition.
        value: The record's value: the last replicated offset.
        source_alias: The flow's source.
        target_alias: The flow's target, by which a connector's name differs from that of another flow of the source.
        cluster: The alias inside the key, where an override names the source's topics by another one.
    """
    try:
        name, place = parse_json(key or b"null")
        if not isinstance(place, dict) or place.keys() != _PLACE:
            return None
        if place["cluster"] != (source_alias if cluster is None else cluster) or not _copies_to(
            name, source_alias, target_alias
        ):
            return None
        partition = TopicPartition(_text(place["topic"]), _number(place["partition"]))
        stored = parse_json(value or b"null")
        last = UNKNOWN if stored is None else stored.get("offset")
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        return MalformedRecord(f"no position of MM2's: {wrong}")
    if last is None or last is UNKNOWN:
        return SourcePosition(partition, UNKNOWN)
    try:
        offset = _number(last)
    except ValueError as wrong:
        return MalformedRecord(str(wrong))
    return SourcePosition(partition, UpstreamOffset(offset) if offset >= 0 else UNKNOWN)


def _copies_to(connector: str, source_alias: str, target_alias: str) -> bool:
    """Whether a connector's name fits a flow: it names no flow, or begins with this one."""
    return "->" not in connector or connector.startswith(f"{source_alias}->{target_alias}.")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no topic")  # noqa: TRY004  all that cannot be read is one thing here
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"{value!r} is no number")  # noqa: TRY004  all that cannot be read is one thing here
    return value
