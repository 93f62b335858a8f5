"""The steps of a failover as commands of Kafka's own tools, with real names: for when mmtool cannot be run."""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING

from mmtool.plan.reset_csv import ResetLine, write_reset_csv
from mmtool.plan.steps import Mode, StepName, topics_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mmtool.plan.failover import FailoverPlan
    from mmtool.plan.group_facts import Commit
    from mmtool.plan.offsets import GroupPlan
    from mmtool.plan.steps import Names
    from mmtool.translation.types import TopicPartition

_COMPARED = 3
"""So many partitions are written out where one command is needed for each; the others are in the table."""


@dataclass(frozen=True, slots=True)
class Place:
    """A cluster as Kafka's tools are told of it.

    Attributes:
        alias: Also names the file that logs them in: ``<alias>.properties``.
        bootstrap: Its bootstrap servers.
    """

    alias: str
    bootstrap: str

    def tool(self, name: str, *arguments: str, config: str = "--command-config") -> str:
        """A command line; the file with the credentials is the reader's own."""
        login = [f"kafka-{name}.sh", "--bootstrap-server", quote(self.bootstrap), config]
        return " ".join([*login, quote(f"{self.alias}.properties"), *map(quote, arguments)])


@dataclass(frozen=True, slots=True)
class Hands:
    """What the commands are made of."""

    plan: FailoverPlan
    names: Names
    source: Place
    target: Place

    @property
    def topics(self) -> list[str]:
        """As the source calls them."""
        return topics_of(self.plan.groups)

    @property
    def answers(self) -> list[tuple[TopicPartition, int, TopicPartition, int]]:
        """Every known pair of offsets: partition and offset on both sides."""
        return [
            (v.source, v.commit.offset, v.target, plan.to_write()[v.target].offset)
            for plan in self.plan.groups
            for v in plan.verdicts
            if v.source is not None and v.commit is not None and v.target in plan.to_write()
        ]

    def commands(self, name: StepName) -> list[str]:
        """Command lines for a step; nothing where no tool of Kafka's does it."""
        return _COMMANDS[name](self)

    def describe(self, place: Place, *more: str) -> str:
        groups = [word for plan in self.plan.groups for word in ("--group", plan.group)]
        return place.tool("consumer-groups", "--describe", *more, *groups)

    def ends(self, place: Place, places: Iterable[TopicPartition], when: str) -> str:
        named = ",".join(f"{at.topic}:{at.partition}" for at in sorted(set(places)))
        return place.tool("get-offsets", "--topic-partitions", named, "--time", when)


def _check(hands: Hands) -> list[str]:
    sides = [hands.source, hands.target] if hands.plan.mode is Mode.PLANNED else [hands.target]
    return [hands.describe(side, word) for side in sides for word in ("--state", "--members")]


def _mark(hands: Hands) -> list[str]:
    topics = [word for _, there in _pairs(hands) for word in ("--topic", there)]
    rule = ("--add", "--deny-principal", "User:THE-MIRROR", "--operation", "Write", *topics)
    return [hands.target.tool("acls", *rule)]


def _drain(hands: Hands) -> list[str]:
    places = [at for at, _, _, _ in hands.answers] or _committed(hands)
    return [hands.ends(hands.source, places, "latest")]


def _translate(hands: Hands) -> list[str]:
    return [] if hands.plan.mode is Mode.EMERGENCY else [hands.describe(hands.source, "--offsets")]


def _records(hands: Hands) -> list[str]:
    """The record that a group reads next, on both sides."""
    return [
        _record(side, at, offset)
        for here, upstream, there, downstream in hands.answers[:_COMPARED]
        for side, at, offset in ((hands.source, here, upstream), (hands.target, there, downstream))
    ]


def _record(side: Place, at: TopicPartition, offset: int) -> str:
    shown = ("--property", "print.timestamp=true", "--property", "print.key=true")
    where = ("--topic", at.topic, "--partition", str(at.partition), "--offset", str(offset))
    most = ("--max-messages", "1", "--timeout-ms", "10000")
    return side.tool("console-consumer", *where, *most, *shown, config="--consumer.config")


def _validate(hands: Hands) -> list[str]:
    places = [there for _, _, there, _ in hands.answers]
    return [hands.ends(hands.target, places, when) for when in ("earliest", "latest")] if places else []


def _write(hands: Hands) -> list[str]:
    lines: list[str] = []
    for number, plan in enumerate(hands.plan.groups, 1):
        if plan.to_write():
            lines += _reset(hands.target, plan.group, plan.to_write(), f"offsets-{number}.csv", "--execute")
            lines += _put_back(hands.target, plan, f"before-{number}.csv")
    return lines


def _reset(
    place: Place, group: str, commits: Mapping[TopicPartition, Commit], file: str, how: str
) -> list[str]:
    """A file in Kafka's own format, and the command that takes it."""
    lines = write_reset_csv(ResetLine(None, at, commit.offset) for at, commit in sorted(commits.items()))
    reset = ("--reset-offsets", "--group", group, "--from-file", file, how)
    return [f"cat > {file} <<'END'", *lines.splitlines(), "END", place.tool("consumer-groups", *reset)]


def _put_back(place: Place, plan: GroupPlan, file: str) -> list[str]:
    """What stood there; what did not is deleted. As a comment, so that nobody runs it by copying the block."""
    before, new = plan.before(), plan.to_write()
    lines = _reset(place, plan.group, before, file, "--execute") if before else []
    fresh: dict[str, list[str]] = {}
    for at in sorted(new.keys() - before.keys()):
        fresh.setdefault(at.topic, []).append(str(at.partition))
    named = [word for topic, numbers in fresh.items() for word in ("--topic", f"{topic}:{','.join(numbers)}")]
    if named:
        lines.append(place.tool("consumer-groups", "--delete-offsets", "--group", plan.group, *named))
    return ["# the way back:", *(f"# {line}" for line in lines)]


def _read_back(hands: Hands) -> list[str]:
    return [hands.describe(hands.target, "--offsets")]


def _none(_: Hands) -> list[str]:
    return []


def _pairs(hands: Hands) -> Sequence[tuple[str, str]]:
    verdicts = [verdict for plan in hands.plan.groups for verdict in plan.verdicts]
    return sorted({(v.source.topic, v.target.topic) for v in verdicts if v.source and v.target})


def _committed(hands: Hands) -> list[TopicPartition]:
    verdicts = [verdict for plan in hands.plan.groups for verdict in plan.verdicts]
    return [v.source for v in verdicts if v.source and v.target]


_COMMANDS: dict[StepName, Callable[[Hands], list[str]]] = {
    StepName.CHECK: _check,
    StepName.MARK: _mark,
    StepName.DRAIN: _drain,
    StepName.TRANSLATE: _translate,
    StepName.VALIDATE: _validate,
    StepName.PROVE: _records,
    StepName.WRITE: _write,
    StepName.READ_BACK: _read_back,
    StepName.HAND_OVER: _none,
    StepName.REPORT: _read_back,
}
"""Every step has its row; a test sees to it."""
