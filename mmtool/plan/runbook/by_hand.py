"""The steps of a failover as commands of Kafka's own tools, for when mmtool cannot run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from mmtool.plain_text import fits_shell, shell_line, shell_word
from mmtool.plan.failover.acl_rules import Binding
from mmtool.plan.failover.failover_plan import FailoverPlan, drain_cures
from mmtool.plan.failover.steps import Mode, StepName
from mmtool.plan.groups.facts import Commit, GroupKind
from mmtool.plan.groups.imports import ResetLine, write_reset_csv
from mmtool.plan.groups.offsets import GroupPlan, OffsetVerdict
from mmtool.plan.words import file_part
from mmtool.translation.types import TopicPartition

_COMPARED = 3
"""The most partitions with commands of their own, where a step needs one for each; the table has the others."""


@dataclass(frozen=True, slots=True)
class ToolCluster:
    """A cluster as an argument of Kafka's tools.

    Attributes:
        alias: Also the name of its client properties file: ``<alias>.properties``.
        bootstrap: Its bootstrap servers.
    """

    alias: str
    bootstrap: str

    @property
    def login_file(self) -> str:
        """The name of the file with the credentials for Kafka's tools."""
        return f"{file_part(self.alias)}.properties"

    def tool(self, name: str, *arguments: str, config: str = "--command-config") -> str:
        """A command line of one of Kafka's tools; the operator provides the file with the credentials.

        A command that no shell can run, as an argument has a NUL, is a comment.
        """
        tool = [f"kafka-{name}.sh", "--bootstrap-server", self.bootstrap, config, self.login_file, *arguments]
        line = shell_line(tool)
        return (
            line
            if fits_shell(arguments)
            else f"# no shell can pass the NUL in a name of this command: {line}"
        )


@dataclass(frozen=True, slots=True)
class Hands:
    """The facts from which the commands are made."""

    plan: FailoverPlan
    source: ToolCluster
    target: ToolCluster

    @property
    def here(self) -> ToolCluster:
        """The cluster that groups leave."""
        return self.target if self.plan.mode is Mode.FAILBACK else self.source

    @property
    def there(self) -> ToolCluster:
        """The destination: the cluster that groups move to."""
        return self.source if self.plan.mode is Mode.FAILBACK else self.target

    @property
    def answers(self) -> list[tuple[TopicPartition, int, TopicPartition, int]]:
        """Every known pair of offsets: partition and offset on the cluster `here`, then on the destination `there`."""
        return [
            (here, verdict.commit.offset, there, commit.offset)
            for plan in self.plan.groups
            for verdict, there, commit in known_of(plan)
            if (here := plan.read_from(verdict)) is not None and verdict.commit is not None
        ]

    @property
    def sources(self) -> list[TopicPartition]:
        """The partitions of the flow's source that it mirrors and that groups have committed for."""
        held, back = self.plan.held, self.plan.mode is Mode.FAILBACK
        verdicts = [verdict for plan in self.plan.groups for verdict in plan.verdicts]
        found = {v.source for v in verdicts if v.source and v.target}
        return sorted(at for at in found if not back or at.topic in held)

    def copies(self, topics: Collection[str]) -> list[str]:
        """The names on the flow's target of these topics of its source, and the state topics that move."""
        verdicts = [verdict for plan in self.plan.groups for verdict in plan.verdicts]
        read = {v.target.topic for v in verdicts if v.source and v.target and v.source.topic in topics}
        return sorted(read | set(self.plan.state))

    def commands(self, name: StepName) -> list[str]:
        """The command lines for a step; empty where no tool of Kafka's does it."""
        commands = _COMMANDS.get(name)
        return [] if commands is None else commands(self)

    def describe(self, place: ToolCluster, *more: str) -> list[str]:
        """The command that describes the consumer groups, and one for each group of another kind.

        On the destination, Kafka keeps a Streams application as a consumer group until its members join.
        """
        name_of = attrgetter("target_group" if place == self.target else "group")
        named: dict[GroupKind, list[str]] = {}
        for plan in self.plan.groups:
            named.setdefault(plan.kind, []).append(name_of(plan))
        consumers = named.pop(GroupKind.CONSUMER, [])
        groups = [word for name in consumers for word in ("--group", name)]
        lines = [place.tool("consumer-groups", "--describe", *more, *groups)] if groups else []
        for kind, names in named.items():
            for name in names:
                kinds = (
                    [kind, GroupKind.CONSUMER]
                    if kind is GroupKind.STREAMS and place == self.there
                    else [kind]
                )
                tools = [place.tool(f"{of}-groups", "--describe", *more, "--group", name) for of in kinds]
                lines.append(" || ".join(tools))
        return lines

    def ends(self, place: ToolCluster, places: Iterable[TopicPartition], when: str) -> str:
        named = ",".join(f"{at.topic}:{at.partition}" for at in sorted(set(places)))
        return place.tool("get-offsets", "--topic-partitions", named, "--time", when)


def known_of(plan: GroupPlan) -> list[tuple[OffsetVerdict, TopicPartition, Commit]]:
    """The commits to write that are known now; none for a group with a refusal that no drain cures.

    mmtool writes a group whole or not at all; an operator writes it by hand when the other commits are known.
    """
    if any(verdict.blocks and not drain_cures(verdict) for verdict in plan.verdicts):
        return []
    free = replace(plan, verdicts=tuple(verdict for verdict in plan.verdicts if not verdict.blocks))
    wanted = free.to_write()
    return [
        (verdict, place, wanted[place])
        for verdict in free.verdicts
        if (place := plan.written_to(verdict)) is not None and place in wanted
    ]


def _check(hands: Hands) -> list[str]:
    sides = [hands.there] if hands.plan.mode is Mode.EMERGENCY else [hands.here, hands.there]
    return [
        line for side in sides for word in ("--state", "--members") for line in hands.describe(side, word)
    ]


def _deny(hands: Hands, topics: Collection[str], *how: str) -> list[str]:
    """The commands for a rule that denies the mirror's principal to write these topics on the flow's target."""
    named = [word for topic in hands.copies(topics) for word in ("--topic", topic)]
    rule = ("--deny-principal", "User:THE-MIRROR", "--operation", "Write", *named)
    replaced = "# replace User:THE-MIRROR with the principal of mmtool replicate or MirrorMaker 2"
    return [replaced, hands.target.tool("acls", *how, *rule)] if named else []


def _rules(place: ToolCluster, rules: Iterable[Binding], *, adds: bool = True) -> list[str]:
    """The commands that add rules or remove them, and the opposite as comments."""
    ways = ("--add",), ("--remove", "--force")
    done, undone = ways if adds else ways[::-1]
    made = [place.tool("acls", *done, *rule.words) for rule in rules]
    back = [place.tool("acls", *undone, *rule.words) for rule in rules]
    return [*made, "# to undo:", *(f"# {line}" for line in back)] if made else []


def _drain(hands: Hands) -> list[str]:
    """The commands that read the source's log ends, and except for a failback those of the state topics."""
    ends = _source_ends(hands)
    return ends if hands.plan.mode is Mode.FAILBACK else [*ends, *_state(hands)]


def _drain_back(hands: Hands) -> list[str]:
    mirrors = set(hands.copies(hands.plan.held)) - set(hands.plan.held)
    places = [
        at
        for plan in hands.plan.groups
        for verdict in plan.verdicts
        if (at := plan.read_from(verdict)) and verdict.source and verdict.target
        if at.topic not in mirrors
    ]
    ends = [hands.ends(hands.here, places, "latest")] if places else []
    return [*ends, *_state(hands)]


def _source_ends(hands: Hands) -> list[str]:
    return [hands.ends(hands.source, hands.sources, "latest")] if hands.sources else []


def _state(hands: Hands) -> list[str]:
    """The commands that read the log ends of the state topics, which have the same names on both clusters."""
    sides = (hands.here, hands.there)
    return [
        side.tool("get-offsets", "--topic", topic, "--time", "latest")
        for topic in hands.plan.state
        for side in sides
    ]


def _export(hands: Hands) -> list[str]:
    """The commands that copy whole topics to files: the start of the diverged tail is not known beforehand."""
    shown = ("offset", "partition", "timestamp", "key", "headers")
    printed = [word for name in shown for word in ("--property", f"print.{name}=true")]
    whole = ("--from-beginning", "--timeout-ms", "30000", *printed)
    topics = sorted({at.topic for at in hands.sources})
    return [
        hands.there.tool("console-consumer", "--topic", topic, *whole, config="--consumer.config")
        + f" > {shell_word(topic + '.txt')}"
        for topic in topics
    ]


def _records(hands: Hands) -> list[str]:
    """The commands that read the record at each pair of offsets, on both clusters."""
    shown = ("--property", "print.timestamp=true", "--property", "print.key=true")
    one = ("--max-messages", "1", "--timeout-ms", "10000", *shown)
    lines = []
    for here, read, there, written in hands.answers[:_COMPARED]:
        for side, at, offset in ((hands.here, here, read), (hands.there, there, written)):
            where = ("--topic", at.topic, "--partition", str(at.partition), "--offset", str(offset))
            lines.append(side.tool("console-consumer", *where, *one, config="--consumer.config"))
    return lines


def _validate(hands: Hands) -> list[str]:
    places = [there for _, _, there, _ in hands.answers]
    return [hands.ends(hands.there, places, when) for when in ("earliest", "latest")] if places else []


def _write(hands: Hands) -> list[str]:
    lines: list[str] = []
    for number, plan in enumerate(hands.plan.groups, 1):
        known = {place: commit for _, place, commit in known_of(plan)}
        if known:
            file = f"offsets-{number}.csv"
            lines += [
                f"# {file} lacks {plan.written_to(verdict)}: add its line, with the offset found in step translate"
                " after the drain"
                for verdict in plan.verdicts
                if drain_cures(verdict)
            ]
            if plan.kind is GroupKind.SHARE:
                lines.append("# --from-file needs Kafka 4.4's kafka-share-groups.sh")
            lines += _reset(hands.there, plan, known, file)
            lines += _put_back(hands.there, plan, f"before-{number}.csv")
        else:
            lines.append(
                f"# no file for group {file_part(plan.group)}: it cannot move now; the table above has the reason"
            )
    return lines


def _reset(
    place: ToolCluster, plan: GroupPlan, commits: Mapping[TopicPartition, Commit], file: str
) -> list[str]:
    """The command that creates a reset file in Kafka's own format, and the command that applies it."""
    lines = write_reset_csv(ResetLine(None, at, commit.offset) for at, commit in sorted(commits.items()))
    reset = ("--reset-offsets", "--group", plan.written_group, "--from-file", file, "--execute")
    return [f"cat > {file} <<'END'", *lines.splitlines(), "END", place.tool(plan.kind.writer, *reset)]


def _put_back(place: ToolCluster, plan: GroupPlan, file: str) -> list[str]:
    """The commands that restore the previous commits, and delete commits of partitions that had none.

    They are comments, so that a copy of the whole block does not run them. Kafka deletes the positions of a share
    group by whole topics, so they go first.
    """
    known = known_of(plan)
    before = {place: verdict.before for verdict, place, _ in known if verdict.before is not None}
    fresh: dict[str, list[str]] = {}
    for at in sorted({place for _, place, _ in known} - before.keys()):
        fresh.setdefault(at.topic, []).append(str(at.partition))
    of_share = plan.kind is GroupKind.SHARE
    named = [
        word
        for topic, numbers in fresh.items()
        for word in ("--topic", topic if of_share else f"{topic}:{','.join(numbers)}")
    ]
    delete = ("--delete-offsets", "--group", plan.written_group, *named)
    lines = [place.tool(plan.kind.writer, *delete)] if named else []
    lines += _reset(place, plan, before, file) if before else []
    return ["# to undo:", *(f"# {line}" for line in lines)]


_COMMANDS: dict[StepName, Callable[[Hands], list[str]]] = {
    StepName.CHECK: _check,
    StepName.FENCE: lambda hands: _rules(hands.here, hands.plan.fence.denies),
    StepName.TRANSACTIONS: lambda hands: [hands.here.tool("transactions", "list")],
    StepName.ENDS: _drain,
    StepName.MARK: lambda hands: _deny(hands, {at.topic for at in hands.sources}, "--add"),
    StepName.DRAIN: _drain,
    StepName.FIND: _source_ends,
    StepName.EXPORT: _export,
    StepName.DRAIN_BACK: _drain_back,
    StepName.TRANSLATE: (
        lambda hands: [] if hands.plan.mode is Mode.EMERGENCY else hands.describe(hands.here, "--offsets")
    ),
    StepName.VALIDATE: _validate,
    StepName.PROVE: _records,
    StepName.PROMOTE: lambda hands: _rules(hands.target, hands.plan.promotion.acls),
    StepName.WITHDRAW: lambda hands: _rules(hands.target, hands.plan.promotion.acls, adds=False),
    StepName.WRITE: _write,
    StepName.READ_BACK: lambda hands: hands.describe(hands.there, "--offsets"),
    StepName.RELEASE: (
        lambda hands: _deny(hands, hands.plan.released, "--remove", "--force") if hands.plan.released else []
    ),
    StepName.REPORT: lambda hands: hands.describe(hands.there, "--offsets"),
}
"""The commands of every step of a runbook, but of `hand_over`, which no tool of Kafka's does."""
