"""Identical names both ways: two clusters share topics, both are written to, and each record crosses once."""

import pytest

from kit.both_ways import SIDES, Pair
from kit.lookups import flow_facts
from mmtool.plan.groups.offsets import answer_forward
from mmtool.translation.answers import Exact
from mmtool.translation.types import UpstreamOffset

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.promise]

WAYS = (SIDES, SIDES[::-1])
PATIENCE_SECONDS = 60.0


@pytest.fixture(scope="module")
def pair(fleet, tmp_path_factory):
    """A pair that was written to on both sides, whose mirrors were killed at once and started again."""
    pair = Pair(fleet, tmp_path_factory.mktemp("pair"))
    pair.create_topics()
    with pair.writers() as writing:
        with pair.replicate() as first:
            pair.wait_for_growth(PATIENCE_SECONDS)
            first.kill_all()
        with pair.replicate() as second:
            pair.wait_for_growth(PATIENCE_SECONDS)
            writing.close()
            pair.wait_until_equal(PATIENCE_SECONDS)
            answer = second.stop()
    assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
    return pair


def test_every_record_is_on_both_sides_once_and_in_order(pair):
    assert pair.differences() == {}


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_no_commit_of_either_side_skips_a_record_or_re_reads_more_than_is_said(pair, here, there, measured):
    asked, exact, wrong = pair.wrong_answers(here, there)
    measured(f"identical names, {here}->{there}: {asked} offsets, {exact} of them exact, none wrong")
    assert wrong == [], f"{len(wrong)} of {asked}: {wrong[:3]}"
    assert exact > 0


@pytest.mark.parametrize(("here", "there"), WAYS)
def test_a_group_that_has_read_all_of_one_side_re_reads_nothing_on_the_other(pair, here, there):
    for known in flow_facts(pair.properties, here, there, pair.topics).values():
        end = UpstreamOffset(known.source_log.log_end)
        assert isinstance(answer_forward(known, end, known.target_log), Exact), known.source
