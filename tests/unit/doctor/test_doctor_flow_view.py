"""Who runs a flow, as far as stored state tells."""

from types import SimpleNamespace

import pytest

from kit.clusters import FakeCluster
from mmtool.doctor.examination import ExaminedFlow, Mm2Traces
from mmtool.doctor.mirror_maker import check_checkpoints, check_filters, check_offset_lag
from mmtool.errors import NotAuthorisedError
from mmtool.kafka.ports import Mm2State, StoredCheckpoints
from mmtool.runtime.threads import Once
from mmtool.translation.sync_map import OffsetPair, SyncMap
from mmtool.translation.types import TopicPartition

SYNC = OffsetPair(5, 5, 1_000)
PLACE = TopicPartition("orders", 0)
NOTHING = Mm2Traces(Mm2State({}, {}), StoredCheckpoints({}, {}), {})
TRACES = Mm2Traces(Mm2State({PLACE: SyncMap.of([SYNC])}, {}, {PLACE: SYNC}), StoredCheckpoints({}, {}), {})


def denied():
    raise NotAuthorisedError("A denies READ on mm2-offset-syncs.B.internal", remedy="grant it")


def view_of(settings, *, ran, heard_ms=0, traces=lambda: NOTHING):
    fake = FakeCluster("A", "id-of-A")
    clusters = SimpleNamespace(settings=settings, source=fake, target=fake, state=None)
    view = ExaminedFlow(clusters, None, None, None, 1, None)
    positions = {("id", 0): SimpleNamespace(observed_ms=heard_ms)} if ran else {}
    control = SimpleNamespace(flow="record" if ran else None, positions=positions)
    view.control, view.traces = Once(lambda: control), Once(traces)
    return view


@pytest.mark.parametrize(
    ("ran", "heard_ms", "traces", "expected"),
    [
        (False, 0, lambda: NOTHING, False),
        (False, 0, lambda: TRACES, True),
        (True, 2_000, lambda: TRACES, False),  # mmtool took the flow over
        (True, 500, lambda: TRACES, True),  # and MirrorMaker 2 has it again
        (True, 500, lambda: NOTHING, False),
        (False, 0, denied, False),
        (True, 500, denied, False),
    ],
)
def test_the_last_one_to_write_runs_the_flow(flow, ran, heard_ms, traces, expected):
    assert view_of(flow(), ran=ran, heard_ms=heard_ms, traces=traces).mm2_runs() is expected


@pytest.mark.parametrize("check", [check_offset_lag, check_filters, check_checkpoints])
def test_the_checks_of_a_mirror_maker_2_say_so_without_one_and_fail_where_its_topics_are_hidden(flow, check):
    (row,) = check.examine(view_of(flow(), ran=True, traces=denied))
    assert (row.severity, row.message) == ("ok", "not checked: MirrorMaker 2 does not run this flow")
    with pytest.raises(NotAuthorisedError):
        list(check.examine(view_of(flow(), ran=False, traces=denied)))
