"""Judge log directories: offline, full, or too small for what the flow still has to copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mmtool.doctor.finding import Check, ok, problem, warning
from mmtool.output.human import size
from mmtool.plan.words import counted
from mmtool.translation.known import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.details import LogDir
    from mmtool.translation.types import TopicPartition

_LITTLE = 0.10
_NOTHING = 0.02


def judge_disks(alias: str, brokers: Mapping[int, tuple[LogDir, ...]]) -> Iterator[Finding]:
    """Findings about each broker's log directories: offline or full."""
    found = [
        finding
        for node, dirs in sorted(brokers.items())
        for one in dirs
        for finding in _of_dir(alias, node, one)
    ]
    if found:
        yield from found
        return
    told = [
        one
        for dirs in brokers.values()
        for one in dirs
        if one.total is not UNKNOWN and one.usable is not UNKNOWN
    ]
    if not told:
        yield ok(
            Check.DISK,
            alias,
            "no log directory is offline; free space was not checked: brokers before Kafka 3.3 do not report it",
        )
        return
    fullest = min(told, key=_share)
    free = f"{_share(fullest):.0%} ({size(_free(fullest))})"
    yield ok(Check.DISK, alias, f"every log directory is online; the fullest volume has {free} free")


def _of_dir(alias: str, node: int, one: LogDir) -> Iterator[Finding]:
    subject = f"broker {node}: {one.path}" if one.path else f"broker {node}"
    what = f"log directory {one.path or '(path not reported)'} of broker {node} of {alias}"
    if one.failure:
        message = f"{what} is offline ({one.failure}): its replicas cannot be read or written"
        yield problem(
            Check.DISK,
            alias,
            subject,
            message,
            "free space if the disk is full, else repair or replace it; then restart the broker",
        )
    elif one.total is not UNKNOWN and one.usable is not UNKNOWN and _share(one) < _LITTLE:
        say = problem if _share(one) < _NOTHING else warning
        message = (
            f"{what} has {size(one.usable)} of {size(one.total)} free ({_share(one):.0%}): Kafka takes a full log"
            " directory offline"
        )
        remedy = "add disk space, or lower retention.ms or retention.bytes of large topics"
        yield say(Check.DISK, alias, subject, message, remedy)


def _share(one: LogDir) -> float:
    return _free(one) / one.total if one.total is not UNKNOWN and one.total else 1.0


def _free(one: LogDir) -> int:
    return 0 if one.usable is UNKNOWN else one.usable


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """The sizes of what a flow has to copy, and of the target's disks.

    Attributes:
        source: Bytes of each mirrored partition on the source's disks.
        target: Bytes of its mirror, by the source's name.
        replicas: How many copies of each byte the target keeps.
        dirs: The target's log directories.
    """

    target_alias: str
    source: Mapping[TopicPartition, int]
    target: Mapping[TopicPartition, int]
    replicas: int
    dirs: tuple[LogDir, ...]

    @property
    def to_come(self) -> int:
        """An upper bound of the bytes that mirroring will add on the target's disks."""
        left = (max(held - self.target.get(place, 0), 0) for place, held in self.source.items())
        return sum(left) * self.replicas


def judge_copy(facts: CopyFacts, flow: str) -> Iterator[Finding]:
    """Whether the target has room for what is still to be mirrored; brokers before 3.3 do not report free space."""
    told = [one for one in facts.dirs if one.usable is not UNKNOWN and not one.failure]
    if not told:
        message = (
            f"space for the copy was not checked: {facts.target_alias} does not report free space; Kafka 3.3 and later"
            f" report it to a principal with DESCRIBE on cluster {facts.target_alias}"
        )
        yield ok(Check.DISK, "", message, flow)
        return
    room, wanted = sum(map(_free, told)), facts.to_come
    if wanted <= room:
        yield ok(
            Check.DISK,
            "",
            f"{facts.target_alias} has {size(room)} free, and {flow} has up to {size(wanted)} to copy",
            flow,
        )
        return
    say = (
        warning if any(facts.target.values()) else problem
    )  # one that was mirrored may keep less than the source
    message = (
        f"{facts.target_alias} has {size(room)} free, and {flow} has up to {size(wanted)} to copy"
        f" ({counted(facts.replicas, 'replica')} of each partition): disks of {facts.target_alias} may become full"
    )
    remedy = (
        f"add disk space to {facts.target_alias}, or mirror fewer topics; or set mmtool.start = latest: topics that"
        f" {flow} has not mirrored before are then mirrored without their existing records"
    )
    yield say(Check.DISK, facts.target_alias, flow, message, remedy)


def largest_sizes(brokers: Iterable[Iterable[LogDir]]) -> dict[TopicPartition, int]:
    """The size in bytes of each partition's largest replica."""
    found: dict[TopicPartition, int] = {}
    for one in (directory for dirs in brokers for directory in dirs):
        for place, held in one.sizes.items():
            found[place] = max(held, found.get(place, 0))
    return found
