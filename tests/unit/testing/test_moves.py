"""When a seed of the chaos suite has proved something, and what is typed next when an operation under faults ended."""

from collections import Counter
from types import SimpleNamespace

import pytest

from kit.chaos.anomalies import BothLogs, Seen
from kit.chaos.faults import Doing
from kit.chaos.moves import Move, MoveOutcome, MoveRun
from kit.chaos.schedule import Fault, Side, What
from kit.chaos.seed import nothing_happened
from mmtool.translation.types import TopicPartition

DRILL = "mmtool failover rollback 20261125T184526Z-9018f9 deletes what it left"


def typed(move, *answers):
    """The lines that follow each other for such answers, each an exit code and what was said; and the failures."""
    run, lines, left = MoveRun.__new__(MoveRun), [], list(answers)
    run.outcome = MoveOutcome(11, 1, move, None)
    run._healed_at = None
    run._of_groups = lambda _: ()

    def answered(words, _name):
        lines.append(" ".join(words))
        code, said = left.pop(0)
        return SimpleNamespace(code=code, stderr=said, said=said.splitlines(), seconds=1.0)

    run._run = answered
    run._until_done()
    return lines, run.outcome.failures


def test_a_drill_that_was_cut_off_is_rolled_back_and_drilled_again():
    lines, failures = typed(Move.DRILL, (6, DRILL), (9, "error: away"), (0, ""), (0, ""))
    back = "failover rollback 20261125T184526Z-9018f9 --execute --yes"
    drill = str(Move.DRILL)
    assert (lines, failures) == ([drill, back, back, drill], [])


def test_an_end_that_the_contract_does_not_know_for_a_fault_counts_against_it():
    assert typed(Move.DRILL, (1, "error: unexpected KeyError"))[1] == [
        "ended with 1: ['error: unexpected KeyError']"
    ]


AT = TopicPartition("orders", 0)
KILLED, SILENT = Fault(0, 0, Side.COMMAND, What.WORKER_KILLED), Fault(0, 0, Side.SOURCE, What.SILENT, (0,))
CARRIED = Counter({Side.SOURCE: 100, Side.TARGET: 100})
LOGS = {AT: BothLogs(AT, [Seen(0, 0, 0)], frozenset({1}), [Seen(0, 0, 0)])}
NONE_ABORTED = {AT: BothLogs(AT, [Seen(0, 0, 0)], frozenset(), [Seen(0, 0, 0)])}


@pytest.mark.parametrize(
    ("missed", "carried", "logs", "why"),
    [
        pytest.param([KILLED], CARRIED, LOGS, [], id="one met somebody"),
        pytest.param([KILLED, SILENT], CARRIED, LOGS, ["no fault met anybody"], id="none did"),
        pytest.param(
            [],
            Counter({Side.TARGET: 1}),
            LOGS,
            ["nothing went through the links of source"],
            id="the command goes past a link",
        ),
        pytest.param([], CARRIED, NONE_ABORTED, ["no transaction was aborted"], id="all were committed"),
    ],
)
def test_it_is_told_why_a_seed_proves_nothing(missed, carried, logs, why):
    assert nothing_happened([KILLED, SILENT], missed, carried, logs) == why


class Process:
    """A command of which some parts are alive."""

    def __init__(self, *alive):
        self._alive = alive

    def _hit(self, *roles):
        return [1] if not roles or set(roles) & set(self._alive) else []

    kill = freeze = _hit

    alive = False

    def thaw(self):
        pass


class Keeper:
    def __init__(self, process):
        self.process = process


@pytest.mark.parametrize("alive", ["worker", "jvm"])
def test_a_fault_that_met_nobody_is_known(alive):
    faults = [Fault(0, 0, Side.COMMAND, what) for what in (What.WORKER_KILLED, What.STOPPED, What.FROZEN)]
    doing = Doing(faults, None, Keeper(Process(alive)))
    doing.run()
    assert doing.missed == faults[0 if alive == "jvm" else 1 : 2]
