"""The letter L of an emergency where records are born on both sides, against a model that knows each record."""

from hypothesis import given
from hypothesis import strategies as st

from kit.maps import map_of
from kit.pairs import HERE, THERE, live, lives, pairs
from kit.runs import ORDERS
from mmtool.plan.failover.emergency import costs_of, plan_emergency
from mmtool.plan.failover.risks import REPORT_SECONDS, SEEN_GRACE_SECONDS, EmergencyFacts, LastWord
from mmtool.plan.groups.facts import Commit, GroupFacts
from mmtool.plan.groups.offsets import PartitionFacts
from mmtool.plan.words import Names
from mmtool.translation.answers import Refused, Skipping, TargetLog
from mmtool.translation.blocks import SeenOffset
from mmtool.translation.translate import translate_in_pair
from mmtool.translation.types import UNKNOWN, DownstreamOffset, TopicPartition, UpstreamOffset

PLACE = TopicPartition("orders", 0)


def emergency(known, target, commit, checkpoint, source_end, *, born_there=True):
    """The plan for a group with one checkpoint; the topic has one name on both sides."""
    facts = EmergencyFacts(
        (GroupFacts("app", {PLACE: Commit(commit)}),),
        {},
        {("app", PLACE): LastWord(DownstreamOffset(checkpoint), 0)},
        {PLACE: PartitionFacts(PLACE, PLACE, known, UNKNOWN, target)},
        {PLACE: SeenOffset(UpstreamOffset(source_end), 0)},
        now_ms=0,
        born_there=born_there,
    )
    return plan_emergency("op", Names("east", "west"), facts)


def log(start, end):
    return TargetLog(DownstreamOffset(start), DownstreamOffset(end))


def test_deleted_unread_records_are_lost_whether_or_not_records_are_born_on_the_target():
    known = map_of(ORDERS, [(0, 0, 60)], 60)
    both = [emergency(known, log(20, 60), 5, 5, 60, born_there=born) for born in (False, True)]
    assert [costs_of(plan).lost.most for plan in both] == [15, 15]
    assert [plan.groups[0].verdicts[0].answer for plan in both] == [Skipping(20, 15)] * 2


def test_without_offset_runs_what_a_checkpoint_skips_is_said_and_the_loss_stays_unknown():
    plan = emergency(None, log(20, 60), 5, 5, 60)
    assert plan.groups[0].verdicts[0].answer == Skipping(20, 15)
    assert costs_of(plan).lost.most is UNKNOWN


@given(st.floats(0, 600), st.integers(-700_000, 700_000))
def test_an_end_counts_for_the_interval_of_checkpoints_and_the_grace(interval, seen_ms):
    facts = EmergencyFacts((), {}, {}, {}, {}, now_ms=0, look_seconds=interval)
    limit = max(interval, REPORT_SECONDS) + SEEN_GRACE_SECONDS
    assert facts.is_present(seen_ms) == (abs(seen_ms) <= limit * 1000)


@given(pairs(), lives(), st.data())
def test_no_more_is_lost_than_was_said_however_much_the_target_has_deleted(pair, later, data):
    commit = UpstreamOffset(data.draw(st.integers(0, len(pair.logs[HERE]))))
    maps, bounds = (pair.map(HERE), pair.map(THERE)), (pair.target_log(), pair.source_log())
    checkpoint = translate_in_pair(*maps, commit, target=bounds[0], source=bounds[1])
    if isinstance(checkpoint, Refused):
        return
    live(pair, later)
    ends = [len(pair.logs[side]) for side in (HERE, THERE)]
    target = log(data.draw(st.integers(0, ends[1])), ends[1])
    plan = emergency(pair.map(HERE), target, commit, checkpoint.offset, ends[0])
    (verdict,) = plan.groups[0].verdicts
    held = pair.at_or_after(max(verdict.answer.offset, target.log_start))
    everything = pair.read(ends[0]) | pair.at_or_after(0)
    assert len(everything - pair.read(commit) - held) <= costs_of(plan).lost.most
