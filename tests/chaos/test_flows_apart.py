"""Several flows in one process, and a cluster of one of them that is away: the others do not wait for it."""

import os
import threading
import time
from contextlib import ExitStack

import pytest

from kit.exactness import wrong_translations
from kit.lab_admin import compare_topics
from kit.processes import MmtoolProcess
from kit.writers import RunningWriter
from mmtool.config import load_settings
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 90
AWAY_SECONDS = 45  # longer than any request, the ownership session and several rounds
STILL_SECONDS = 20  # of the other flow, at most: an end of a round, and the wait for the last answers
TOPIC, PARTITIONS = "apart", 3
HEALTHY = ("one", "two")
FLOWS = {"target": [HEALTHY, ("one", "three")], "source": [HEALTHY, ("three", "two")]}
"""By what the third cluster is in the second flow."""


@pytest.fixture
def own(tmp_path):
    with Fleet.of(tmp_path, "one", "two", "three") as clusters:
        yield clusters


class Growth:
    """Looks four times a second how long a topic is."""

    def __init__(self, bootstrap, topic):
        self._of, self._stop, self._thread = (bootstrap, topic), threading.Event(), None
        self.still = 0.0

    def __enter__(self):
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _look(self):
        last, moved = 0, time.monotonic()
        while not self._stop.wait(0.25):
            now = sum(end_offsets(*self._of).values())
            if now != last:
                last, moved = now, time.monotonic()
            self.still = max(self.still, time.monotonic() - moved)


def writer_on(cluster):
    return RunningWriter(cluster.bootstrap, TOPIC, PARTITIONS, 100.0)


def length(own, flow):
    return sum(end_offsets(own[flow[1]].bootstrap, f"{flow[0]}.{TOPIC}").values())


def moves(own, flow):
    before = length(own, flow)
    return wait_until(lambda: length(own, flow) > before, f"{flow} to move", PATIENCE_SECONDS)


def identical(own, flow):
    source, target = own[flow[0]], own[flow[1]]
    verdicts = compare_topics(source.bootstrap, TOPIC, target.bootstrap, f"{source.name}.{TOPIC}")
    return all(verdict.is_identical for verdict in verdicts.values())


def file_of(own, folder, flows):
    properties = folder / "mm2.properties"
    extra = {"topics": TOPIC, "heartbeats.replication.enabled": "false", "mmtool.round.seconds": "15"}
    properties.write_text(own.properties(flows, **extra))
    return properties


@pytest.mark.parametrize("side", ["target", "source"])
def test_a_cluster_that_is_away_stops_its_own_flow_only(own, tmp_path, measured, side):
    flows = FLOWS[side]
    lost = flows[1]
    properties = file_of(own, tmp_path, flows)
    for name in dict.fromkeys(source for source, _ in flows):
        create_topic(own[name].bootstrap, TOPIC, PARTITIONS)
    written = {name: writer_on(own[name]) for name in dict.fromkeys(source for source, _ in flows)}
    with ExitStack() as stack, MmtoolProcess(tmp_path / "run", "replicate", "-c", str(properties)) as process:
        for writer in written.values():
            stack.enter_context(writer)
        for flow in flows:
            moves(own, flow)
        if side == "source":
            written["three"].stop()  # a producer without a broker
        with Growth(own["two"].bootstrap, f"one.{TOPIC}") as healthy:
            own["three"].kill_broker(0)
            time.sleep(AWAY_SECONDS)
            assert process.alive, process.stderr
            moves(own, HEALTHY)
            own["three"].start_broker(0)
            if side == "source":
                stack.enter_context(writer_on(own["three"]))
            back = moves(own, lost)
        measured(
            f"a {side} away for {AWAY_SECONDS} s: its flow moved {back:.1f} s after its return,"
            f" the other one stood still for {healthy.still:.1f} s at the most"
        )
        assert healthy.still < STILL_SECONDS
        stack.close()
        for flow in flows:
            wait_until(lambda flow=flow: identical(own, flow), f"{flow} to be identical", PATIENCE_SECONDS)
        answer = process.stop()
    assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
    assert side == "source" or "one->three: lost ownership; reacquiring" in answer.stderr
    assert answer.stderr.count(" one->two: ") == 1, answer.stderr  # that it owns the flow
    settings = load_settings(properties, os.environ)
    for source, target in flows:
        (flow,) = settings.select(source, target)
        assert wrong_translations(flow, own[source], own[target], [TOPIC])[1][:5] == []
