"""The background collector, and the server that answers from it, with clusters that answer, fail and hang."""

import socket
import threading
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain

from kit.scrape import fetch
from mmtool.config import load_settings
from mmtool.errors import NotAuthorisedError, UnreachableError, UsageError
from mmtool.lab.ports import wait_until
from mmtool.metrics import families
from mmtool.metrics.collector import Collector, Lookout, Reopened
from mmtool.metrics.samples import Sample
from mmtool.metrics.server import MetricsServer

PROPERTIES = """\
clusters = a, b, c
a.bootstrap.servers = a-1:9092
b.bootstrap.servers = b-1:9092
c.bootstrap.servers = c-1:9092
a->b.enabled = true
a->c.enabled = true
"""


class FakeProbes:
    """Clusters that answer unless they are ``away`` or ``hung``; flows that have the topics of ``topics``."""

    def __init__(self):
        self.away, self.hung = set(), set()
        self.topics = {"a->b": ["x", "y"], "a->c": ["x"]}

    def _reach(self, *aliases):
        for alias in aliases:
            if alias in self.hung:
                threading.Event().wait()
            if alias in self.away:
                raise UnreachableError(f"cluster {alias} does not answer")

    def cluster(self, settings):
        def look():
            self._reach(settings.alias)
            return settings.alias

        return look

    def certificates(self, settings):
        return []

    def flow(self, settings):
        flow = {"source": settings.source.alias, "target": settings.target.alias}

        def look():
            self._reach(*flow.values())
            return [
                Sample(families.LAG_RECORDS, {**flow, "topic": topic, "partition": "0"}, 5)
                for topic in self.topics[settings.name]
            ]

        return look

    def groups(self, settings):
        return list

    operations = groups


@pytest.fixture
def probes():
    return FakeProbes()


@pytest.fixture
def said():
    return []


@pytest.fixture
def collector(probes, tmp_path, said):
    path = tmp_path / "mm2.properties"
    path.write_text(PROPERTIES)
    flows = load_settings(path, {}).flows
    with Collector(lambda: flows, probes, say=said.append, every=0.02, slow_every=0.02) as made:
        yield made


def series(collector):
    body, _ = collector.exposition("")
    return {
        (sample.name, *(sample.labels.get(name, "") for name in ("cluster", "target", "topic"))): sample.value
        for family in plain(body.decode())
        for sample in family.samples
    }


def ups(collector):
    return {key[1]: value for key, value in series(collector).items() if key[0] == "mmtool_cluster_up"}


def lags(collector):
    return {key[2:] for key in series(collector) if key[0] == "mmtool_lag_records"}


ALL = {("b", "x"), ("b", "y"), ("c", "x")}


def test_what_every_look_finds_is_in_one_scrape(collector):
    wait_until(lambda: lags(collector) == ALL, "all flows", 5)
    assert ups(collector) == {"a": 1, "b": 1, "c": 1}
    assert (collector.away(), collector.unseen()) == ([], [])


def test_a_cluster_that_is_away_is_told_and_costs_no_other_flow_its_series(collector, probes):
    wait_until(lambda: lags(collector) == ALL, "all flows", 5)
    probes.away.add("c")
    wait_until(lambda: ups(collector)["c"] == 0, "the cluster to be told", 5)
    wait_until(lambda: lags(collector) == {("b", "x"), ("b", "y")}, "its flow to be unknown", 5)
    assert collector.away() == ["c: cluster c does not answer"]
    probes.away.clear()
    wait_until(lambda: lags(collector) == ALL, "its flow to be back", 5)
    assert ups(collector)["c"] == 1


def test_a_cluster_that_hangs_keeps_no_scrape_waiting(collector, probes):
    wait_until(lambda: lags(collector) == ALL, "all flows", 5)
    probes.hung.add("a")
    time.sleep(0.1)
    began = time.monotonic()
    collector.exposition("")
    assert time.monotonic() - began < 1


def test_a_problem_is_said_once_until_all_is_well_and_a_cluster_that_is_away_is_not(collector, probes, said):
    wait_until(lambda: lags(collector) == ALL, "all flows", 5)
    probes.away.add("c")
    wait_until(collector.away, "the cluster to be told", 5)
    probes.away.clear()
    del probes.topics["a->c"]
    wait_until(lambda: said, "the problem to be said", 5)
    time.sleep(0.2)
    assert said == ["no metrics of a->c: KeyError: 'a->c'; mmtool keeps trying"]


def test_a_denied_right_is_said_with_its_remedy():
    said = []

    def denied():
        raise NotAuthorisedError(
            "cluster a denies DESCRIBE on group app", remedy="grant DESCRIBE on group app"
        )

    Lookout("groups of a->b", denied, 5.0, said.append).ask()
    denial, remedy = "cluster a denies DESCRIBE on group app", "grant DESCRIBE on group app"
    assert said == [f"no metrics of groups of a->b: {denial}; {remedy}; mmtool keeps trying"]


def test_an_answer_that_is_old_is_none_any_more():
    now = [0.0]
    look = Lookout("a", lambda: "answer", 5.0, clock=lambda: now[0])
    assert look.problem == "not asked yet"
    look.ask()
    assert (look.latest, look.problem) == ("answer", "")
    now[0] = 31.0
    assert (look.latest, look.problem) == (None, "a cluster has not answered for 31 s")


def test_clients_are_opened_again_when_their_settings_change_and_every_ten_minutes():
    now, settings, opened = [0.0], ["one"], []
    ask = Reopened(lambda: settings[0], lambda given: opened.append(given) or (lambda: given), lambda: now[0])
    assert [ask(), ask()] == ["one", "one"]
    settings[0] = "two"
    assert ask() == "two"
    now[0] = 700.0
    ask()
    assert opened == ["one", "two", "two"]


# --- the server ------------------------------------------------------------------------------------------


def has_ipv6():
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        return False
    return True


@pytest.fixture(params=["127.0.0.1", "localhost", *(["::1"] if has_ipv6() else [])])
def address(request):
    return request.param


def test_metrics_are_served_in_both_formats(collector, address):
    wait_until(lambda: lags(collector) == ALL, "all flows", 5)
    with MetricsServer(address, 0, "--port") as server:
        server.serve(collector.exposition, list)
        page = fetch(server.url)
        assert (page.status, page.headers["Content-Type"].split(";")[0]) == (200, "text/plain")
        assert {"mmtool_lag_records", "mmtool_cluster_up", "mmtool_build_info"} == {
            family.name for family in plain(page.text)
        }
        page = fetch(server.url, Accept="application/openmetrics-text; version=1.0.0")
        assert page.headers["Content-Type"].startswith("application/openmetrics-text")
        assert list(open_metrics(page.text))
        assert fetch(server.url, "/nothing").status == 404


def test_ready_and_healthy_say_why_not():
    whys = []
    with MetricsServer("127.0.0.1", 0, "--port") as server:
        server.serve(lambda _: (b"", "text/plain"), lambda: whys)
        assert [fetch(server.url, path)[::2] for path in ("/readyz", "/healthz")] == [(200, b"ok\n")] * 2
        whys.append("cluster a does not answer")
        assert fetch(server.url, "/readyz")[::2] == (503, b"cluster a does not answer\n")
        assert fetch(server.url, "/healthz").status == 200


@pytest.mark.parametrize(
    ("taken", "where"), [(True, "127.0.0.1"), (False, "192.0.2.1"), (False, "no such host")]
)
def test_a_port_that_cannot_be_had_is_a_usage_error_of_one_line(taken, where):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1] if taken else 0
        with pytest.raises(UsageError) as refused:
            MetricsServer(where, port, "--metrics-port")
    assert f"--metrics-port {port}: cannot listen on {where}: " in refused.value.message
    assert ("--metrics-address" in refused.value.remedy) is not taken
    assert "\n" not in refused.value.message


def test_a_port_that_is_not_permitted_is_replaced_by_a_higher_one(monkeypatch):
    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket.socket, "bind", denied)
    with pytest.raises(UsageError, match="permission denied") as refused:
        MetricsServer("127.0.0.1", 80, "--metrics-port")
    assert refused.value.remedy == "choose a port of 1024 or more with --metrics-port, or 0 for any free port"
