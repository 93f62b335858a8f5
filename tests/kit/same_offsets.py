"""Sources of every kind for mirrors with the source's own offsets, and the check of what came of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.lab_admin import delete_records
from kit.load import Load, Transactions, produce
from kit.log_cleaner import CompactedTopic, compact
from kit.mirror_flow import mirror
from mmtool.lab.topics import create_topic, end_offsets, read_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mmtool.config import FlowSettings

RECORDS, BEGINS_AT = 1_200, 300


def plain(bootstrap: str, topic: str, first: int = 0) -> None:
    """A record at each offset; called again it writes more."""
    if first == 0:
        create_topic(bootstrap, topic, 2)
    produce(bootstrap, Load(topic, RECORDS, 2, 100, first_sequence=first))


def transactional(bootstrap: str, topic: str, first: int = 0) -> None:
    """Transactions of twenty records, every third one aborted."""
    if first == 0:
        create_topic(bootstrap, topic, 2)
    how = Transactions(f"{topic}-writer", 20, 3)
    produce(bootstrap, Load(topic, RECORDS, 2, 100, transactions=how, first_sequence=first))


def compacted(bootstrap: str, topic: str, first: int = 0) -> None:
    """Holes in batches and between them, which the log cleaner made."""
    log = CompactedTopic(topic, _waves=8 if first else 0)
    if not first:
        log.create(bootstrap)
    log.write(bootstrap, 8)
    compact(bootstrap, topic)


def cut_at_its_start(bootstrap: str, topic: str, first: int = 0) -> None:
    """A log that begins above 0."""
    plain(bootstrap, topic, first)
    if not first:
        for partition in range(2):
            delete_records(bootstrap, topic, BEGINS_AT, partition)


KINDS = (plain, transactional, compacted, cut_at_its_start)


def check_same(
    ends: tuple[str, str], settings: FlowSettings, topic: str, cleaned_to: Mapping[int, int] | None = None
) -> None:
    """All records, their offsets, and the ends of both logs.

    Below ``cleaned_to`` the cleaner has taken more from the source since it was mirrored.
    """
    source, target = ends
    mirror, cleaned_to = settings.remote_topic(topic), cleaned_to or {}
    wanted = read_topic(source, topic)
    for isolation in ("read_committed", "read_uncommitted"):
        found = read_topic(target, mirror, isolation=isolation)
        kept = set(wanted)
        beside = {record for record in found if record.offset < cleaned_to.get(record.partition, 0)} - kept
        assert [record for record in found if record not in beside] == wanted, isolation
    assert len(wanted) > 0
    assert end_offsets(target, mirror) == end_offsets(source, topic)


def check_growing(
    ends: tuple[str, str], settings: FlowSettings, topic: str, write: Callable[..., None]
) -> None:
    """Mirror a topic that ``write`` made, and once more when it has grown, with the check of all records each time."""
    write(ends[0], topic)
    mirror(settings)
    check_same(ends, settings, topic)
    before = end_offsets(ends[0], topic)
    write(ends[0], topic, RECORDS)
    mirror(settings)
    check_same(ends, settings, topic, before if write is compacted else None)
