"""How checks are run: their rows, clusters that do not let mmtool in, and who runs a flow."""

from types import SimpleNamespace

import pytest

from kit.clusters import FakeCluster
from mmtool.config.credentials import Security
from mmtool.doctor.checks import Examination, examine
from mmtool.doctor.entrances import contact
from mmtool.doctor.examination import ExaminedCluster, ExaminedFlow, Mm2Traces
from mmtool.doctor.finding import Finding, flow_check, problem
from mmtool.doctor.mirror_maker import check_checkpoints, check_filters, check_offset_lag
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.admin.listeners import Entrance, ListenerAnswer, Stage
from mmtool.kafka.ports import Mm2State, StoredCheckpoints
from mmtool.runtime.threads import Once
from mmtool.translation.sync_map import OffsetPair, SyncMap
from mmtool.translation.types import TopicPartition


@flow_check("names", "fine")
def fails(_):
    yield problem("B", "orders", "taken", "rename it")
    raise UnreachableError("cluster B does not answer", remedy="check its brokers")


def test_what_was_found_before_a_check_failed_stays_found():
    found = fails.findings(None, "", "A->B")
    assert [(one.subject, one.severity) for one in found] == [("orders", "problem"), ("A->B", "warning")]
    assert {one.check for one in found} == {"names"}
    assert found[1].message == "could not be checked: cluster B does not answer"


def test_a_check_that_finds_nothing_has_one_row():
    (only,) = flow_check("names", "fine")(lambda _: ()).findings(None, "", "A->B")
    assert only == Finding("names", "", "A->B", "ok", "fine")


def test_in_brief_a_kind_that_is_found_in_many_places_is_one_row_and_what_is_well_none():
    rows = [
        Finding("names", "B", f"topic-{number}", "problem", f"topic-{number} is taken", "rename it")
        for number in range(4_999)
    ]
    loop = Finding("loop", "", "A->B", "warning", "a cycle", "cut it")
    found = Examination((*rows, loop, Finding("disk", "B", "", "ok", "free")))
    (names, loop) = found.brief
    assert names.subject == "topic-0, topic-1, topic-2 and 4996 more"
    assert names.message == "4,999 times, the first: topic-0 is taken (--all shows the others)"
    assert (loop.message, len(found.findings)) == ("a cycle", 5_001)


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        (Stage.LOGIN, "not_authorised"),
        (Stage.MECHANISM, "not_authorised"),
        (Stage.CLIENT_CERTIFICATE, "not_authorised"),
        (Stage.CONNECT, "unreachable"),
        (Stage.TLS, "unreachable"),
    ],
)
def test_a_refused_login_is_no_unreachable_cluster_and_both_are_a_problem(stage, code):
    refused = ListenerAnswer(Entrance("A", ("one:9092",), Security()), "one:9092", None, stage, "why")
    details = SimpleNamespace(listeners=lambda: [refused], principal="User:mm")
    settings = SimpleNamespace(
        alias="A", security_for=lambda _: Security(), security=Security(), role_security={}
    )
    cluster = ExaminedCluster(settings, port=None, details=details, settings_of_file=None)
    assert contact([cluster])["A"].code == code
    rows = [row for row in examine([cluster], []).findings if row.check == "reachability"]
    assert [(row.severity, row.cluster) for row in rows] == [("problem", "A")]


# --- who runs a flow ---------------------------------------------------------------------------------------

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
