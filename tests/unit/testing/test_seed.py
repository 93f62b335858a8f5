"""A seed in which nothing happened has not passed, however well both sides look."""

from collections import Counter

import pytest

from kit.chaos.anomalies import BothLogs, Seen
from kit.chaos.faults import Doing
from kit.chaos.schedule import Fault, Side, What
from kit.chaos.seed import nothing_happened
from mmtool.translation.types import TopicPartition

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
