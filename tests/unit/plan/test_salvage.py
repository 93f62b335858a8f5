"""What becomes of the diverged tail, as data: what is written of it and what is left make up the whole."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.plans import tails_and_cuts
from mmtool.plan.failover.choices import ToFile, ToTopic, diverged_of
from mmtool.plan.failover.failover_plan import FailoverPlan
from mmtool.plan.failover.steps import Mode, StepName
from mmtool.plan.failover.tail_progress import (
    Begun,
    begun_body,
    begun_of,
    left_of,
    parts_of,
    together,
    whole,
    written_body,
)
from mmtool.plan.words import Names
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 0)
NAMES = Names("east", "west")


@pytest.mark.parametrize("diverged", [ToFile(), ToTopic("salvage")])
def test_the_words_of_a_choice_lead_back_to_it(diverged):
    assert diverged_of(diverged.words) == diverged


@pytest.mark.parametrize("words", ["", "topic", "replay", "file name", "export"])
def test_other_words_are_refused(words):
    with pytest.raises(ValueError, match=r".+"):
        diverged_of(words)


@given(tails_and_cuts())
def test_what_is_written_and_what_is_left_are_the_tail(found):
    tail, stop, count = found
    begun = Begun({PLACE: 7}, {PLACE: tail.parts} if tail.parts else {})
    written = begun.first({PLACE: (stop, count)} if tail.parts else {}).get(PLACE, ())
    left = left_of(tail, written)
    assert sum(part.records for part in written) == count
    assert left.records == tail.records - count
    assert whole(left, written).records == whole(tail, written).records == tail.records
    assert all(part.start >= stop for part in left.parts) or not written


@given(tails_and_cuts())
def test_a_tail_that_the_mirror_has_passed_is_whole_again_with_what_was_written(found):
    tail, _, _ = found
    passed = left_of(tail, tail.parts)
    assert (passed.records, passed.end) == (0, tail.end)
    assert whole(passed, tail.parts).parts == tail.parts


@given(tails_and_cuts(), st.integers(0, 99))
def test_what_is_on_record_is_read_as_it_was_written(found, end):
    tail, _, _ = found
    begun = Begun({PLACE: end}, {PLACE: tail.parts})
    assert begun_of(json.loads(json.dumps(begun_body(begun)))) == begun
    assert parts_of(json.loads(json.dumps(written_body(begun.parts)))) == begun.parts


@given(tails_and_cuts())
def test_what_is_written_twice_in_part_is_written_once_in_whole(found):
    tail, stop, count = found
    if not tail.parts:
        return
    first = Begun({}, {PLACE: tail.parts}).first({PLACE: (stop, count)})
    left = left_of(tail, first.get(PLACE, ()))
    second = {PLACE: left.parts} if left.parts else {}
    assert sum(part.records for part in together(first, second)[PLACE]) == tail.records


@pytest.mark.parametrize("diverged", [ToFile(), ToTopic("salvage")])
def test_without_a_topic_of_the_flow_no_step_speaks_of_diverged_records(diverged):
    plan = FailoverPlan("op-1", Mode.FAILBACK, NAMES, (), diverged=diverged).with_steps()
    said = {step.name: step.sentence for step in plan.steps}
    skipped = "skip this step: these groups read no topic that east->west mirrors"
    assert said[StepName.FIND] == said[StepName.EXPORT] == skipped
    assert not any("diverged" in sentence for sentence in said.values())
