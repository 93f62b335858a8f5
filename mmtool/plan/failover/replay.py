"""Guards of a failback with diverged records: whether new records on the target can replace or join them.

H  what is written to the target is mirrored to the source, or it is not written
O  a group that returns to the source passes over the old records, or the replay is refused; for a group that had
   read some on the source before, their number is reported
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from mmtool.plan.failover.guards import Guard
from mmtool.plan.words import counted
from mmtool.translation.answers import Bounded, Exact
from mmtool.translation.types import DownstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mmtool.plan.failover.failback_facts import HomeFacts
    from mmtool.plan.groups.offsets import GroupPlan, PartitionFacts, Verdict
    from mmtool.plan.words import Names
    from mmtool.translation.divergence import DivergedTail

_INSTEAD = "use `--diverged topic NAME` or `--diverged file`"


def replay_guards(names: Names, facts: HomeFacts) -> tuple[Guard, ...]:
    """The guards against writing the diverged tail to the target as new records; empty where nothing forbids it.

    Args:
        names: The names of the flow's clusters.
        facts: The facts of the failback, with the diverged tails.
    """
    if not facts.one_name:
        sentence = (
            "--diverged replay needs IdentityReplicationPolicy: with other policies, records in a mirrored topic of"
            f" {names.target} are not mirrored back to {names.source}"
        )
        return (Guard("no_way_home", sentence, _INSTEAD),)
    tails = [(known, tail) for known, tail in _tails(facts) if known.source.topic in facts.held]
    return (
        *(guard for known, tail in tails for guard in _on_the_way(names, facts, known, tail)),
        *(guard for known, _ in tails for guard in _behind(names, facts, known)),
    )


def place_guards(names: Names, facts: HomeFacts) -> Iterator[Guard]:
    """Yield a guard for each partition in which records of the target cannot have their own offsets on the source."""
    back = f"{names.target}->{names.source}"
    for known, tail in _tails(facts):
        if known.source.topic in facts.same and known.source.topic in facts.held:
            yield Guard(
                "offsets_differ",
                f"{known.source} cannot go on with equal offsets: {counted(tail.records, 'record')} of it on"
                f" {names.source} (offsets {tail.start} to {tail.end - 1}) never reached {names.target}, where other"
                " records have these offsets",
                f"set {back}.mmtool.offsets = translated in the properties file, and run the same command again: groups"
                " then move with translated offsets",
            )


def _tails(facts: HomeFacts) -> Iterator[tuple[PartitionFacts, DivergedTail]]:
    """Yield each mirrored partition with a diverged tail."""
    for known in facts.mirrored.values():
        tail = facts.tails.get(known.source)
        if tail is not None and tail.records and (known.map is not None or known.synced is not None):
            yield known, tail


def _on_the_way(names: Names, facts: HomeFacts, known: PartitionFacts, tail: DivergedTail) -> Iterator[Guard]:
    place = known.source
    if known.map is None:
        sentence = (
            f"--diverged replay: MirrorMaker 2 runs {names.flow}, and cannot skip the diverged records of {place}:"
            f" {names.target} would get them twice"
        )
        yield Guard("run_by_mm2", sentence, _INSTEAD)
    elif known.target not in facts.born:
        sentence = (
            f"--diverged replay: flow {names.target}->{names.source} does not mirror {known.target.topic}"
        )
        yield Guard(
            "no_way_home",
            sentence,
            f"let topics and topics.exclude of {names.target}->{names.source} accept {known.target.topic}; or"
            f" {_INSTEAD}",
        )
    elif not tail.is_final:
        sentence = (
            f"--diverged replay: {known.target} on {names.target} may hold mirrored records whose offset runs (the map"
            " of source offsets to target offsets) are not stored yet"
        )
        yield Guard(
            "ambiguous",
            sentence,
            f"stop `mmtool replicate`, run `mmtool flow rebuild -c FILE -s {names.source} -t {names.target} --topic"
            f" {place.topic} --execute`, which derives these offset runs, run the failback again, and then start"
            f" `mmtool replicate` again; or {_INSTEAD}",
        )


def _behind(names: Names, facts: HomeFacts, known: PartitionFacts) -> Iterator[Guard]:
    """Yield a guard for each group that would read the old diverged records on the source and the new ones too."""
    for group in facts.groups:
        commit = group.commits.get(known.target)
        if commit is None or known.map is None:
            continue
        if known.map.runs.find_reverse(DownstreamOffset(commit.offset)) is not None:
            sentence = (
                f"--diverged replay: group {group.group} has not read every record of {known.target} on"
                f" {names.target} that came from {names.source}, and would read the diverged records twice"
                f" on {names.source}"
            )
            yield Guard(
                "would_read_twice",
                sentence,
                f"let {group.group} catch up on {names.target} first; or {_INSTEAD}",
            )


def with_read_before(plan: GroupPlan, facts: HomeFacts) -> GroupPlan:
    """The plan with the diverged records that the group had read on the source, and reads again as new records."""
    return replace(plan, verdicts=tuple(_read_before(verdict, facts) for verdict in plan.verdicts))


def _read_before(verdict: Verdict, facts: HomeFacts) -> Verdict:
    tail = None if verdict.source is None else facts.tails.get(verdict.source)
    if tail is None or verdict.before is None:
        return verdict
    again = sum(max(0, min(part.records, verdict.before.offset - part.start)) for part in tail.parts)
    if not again:
        return verdict
    match verdict.answer:
        case Exact(offset):
            return replace(verdict, answer=Bounded(offset, again))
        case Bounded(offset, most):
            return replace(verdict, answer=Bounded(offset, most + again))
    return verdict
