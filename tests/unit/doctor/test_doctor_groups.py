"""Groups and transactions, judged."""

import pytest

from mmtool.doctor.finding import Severity
from mmtool.doctor.groups import judge_assign
from mmtool.doctor.transactions import Open, judge_transaction
from mmtool.plan.failover.fence_plan import OpenTransaction
from mmtool.translation.types import UNKNOWN, TopicPartition

MINUTE_MS = 60_000
LIMIT_MS = 15 * MINUTE_MS
PLACE = TopicPartition("orders", 3)


@pytest.mark.parametrize(
    ("moving", "simple", "silent_ms", "expected"),
    [
        (True, False, None, True),
        (True, True, 100, True),
        (False, True, 5 * MINUTE_MS, True),
        (False, True, 60 * MINUTE_MS, False),
        (False, True, None, False),  # never seen to commit: a tool wrote its offsets long ago
        (False, False, 5 * MINUTE_MS, False),  # an ordinary group that was stopped
    ],
)
def test_a_group_assigns_where_it_commits_without_a_member(flow, moving, simple, silent_ms, expected):
    found = list(judge_assign(flow(), "app", moving=moving, simple=simple, silent_ms=silent_ms))
    assert [one.severity for one in found] == ([Severity.WARNING] if expected else [])


# --- transactions -----------------------------------------------------------------------------------------


def opened(age_ms, idle_ms, timeout_ms=UNKNOWN, name=UNKNOWN):
    return Open(OpenTransaction(PLACE, 77, 123, name, UNKNOWN, timeout_ms), age_ms, idle_ms)


@pytest.mark.parametrize(
    ("one", "lines", "expected"),
    [
        (opened(LIMIT_MS + 2 * MINUTE_MS, 0), [], Severity.PROBLEM),
        (
            opened(LIMIT_MS + 2 * MINUTE_MS, 0),
            ["A.consumer.isolation.level = read_uncommitted"],
            Severity.WARNING,
        ),
        (opened(5 * MINUTE_MS, 0, timeout_ms=MINUTE_MS), [], Severity.PROBLEM),
        (opened(5 * MINUTE_MS, 0, timeout_ms=10 * MINUTE_MS), [], None),
        (opened(MINUTE_MS, MINUTE_MS), [], Severity.WARNING),
        (opened(None, MINUTE_MS), [], Severity.WARNING),
        (opened(MINUTE_MS, 100), [], None),
        (opened(2_000, 2_000), [], None),
        (opened(None, None), [], None),
    ],
)
def test_a_transaction_hangs_where_its_coordinator_should_have_ended_it(flow, one, lines, expected):
    found = list(judge_transaction(flow(*lines), one, LIMIT_MS))
    assert [row.severity for row in found] == ([expected] if expected else [])


def test_a_hanging_transaction_is_named_with_the_command_that_ends_it(flow):
    (found,) = judge_transaction(flow(), opened(3 * 60 * MINUTE_MS, None, name="payments"), LIMIT_MS)
    assert found.subject == "orders-3"
    assert "77 (payments) has a transaction open on orders-3 from offset 123, for 3 hours" in found.message
    assert found.remedy.endswith("abort --topic orders --partition 3 --start-offset 123")
