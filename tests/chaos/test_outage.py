"""A cluster that is away for longer than any request waits, under a running ``replicate``."""

import time

import pytest

from kit.bench import Bench, Stage
from kit.load import Load, produce
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 90
MARKERS = 2
"""Of a claim in doubt, in each mirrored partition: once, however long the source is away."""
SESSION_SECONDS = 10
STOPS_SECONDS = 25.0
NOT_CLEANLY = "error: stopped, but not cleanly: the workers did not end in time"
AWAY_SECONDS = 60  # requests of the driver and of pumps give up after 30


@pytest.mark.parametrize("side", ["target", "source"])
def test_a_cluster_that_is_away_for_longer_than_requests_wait_ends_nothing(own, tmp_path, measured, side):
    with Stage(Bench(own, tmp_path), "outage", records_per_second=100.0) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        stage.stop_writing()
        stage.wait_until_identical(60)
        before = stage.ends()
        own[side].kill_broker(0)
        time.sleep(AWAY_SECONDS)
        assert process.alive, process.wait(5).stderr
        if side == "source":
            grown = [after - before[at] for at, after in stage.ends().items()]
            assert max(grown) <= MARKERS, "fenced again and again, for a source that is not there"
        own[side].start_broker(0)
        started = time.monotonic()
        with Stage(stage.bench, "outage", topics_exist=True) as again:
            again.wait_until_every_partition_moves(PATIENCE_SECONDS)
            measured(
                f"{side} away for {AWAY_SECONDS} s: all moved {time.monotonic() - started:.1f} s after its return"
            )
            again.stop_writing()
            again.wait_until_identical(60)
        answer = process.stop()
        assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
        assert side == "source" or "no worker report for" in answer.stderr


@pytest.mark.parametrize("how", ["kill_broker", "pause_broker"])
def test_whoever_stops_it_while_the_target_is_away_waits_no_half_minute_and_loses_nothing(
    own, tmp_path, measured, how
):
    """A service manager kills after that; what was in flight the next start finds out."""
    with Stage(Bench(own, tmp_path), f"stopped-{how[:4]}", records_per_second=100.0) as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        getattr(own["target"], how)(0)
        time.sleep(3)
        began = time.monotonic()
        answer = process.stop()
        seconds = time.monotonic() - began
        (own["target"].start_broker if how == "kill_broker" else own["target"].resume_broker)(0)
        measured(f"target away ({how.split('_')[0]}): SIGTERM ended it after {seconds:.1f} s")
        said = [line for line in answer.said if line.startswith(("error: ", "Traceback"))]
        assert (answer.code, len(said)) == (9, 1), answer.stderr
        assert said[0].startswith(NOT_CLEANLY)
        assert seconds < STOPS_SECONDS
        again = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        measured(f"{stage.prove_exact(again)} offsets exact afterwards")


def test_a_flow_with_nothing_to_mirror_outlives_a_target_that_hangs_for_longer_than_a_session(
    own, tmp_path, measured
):
    """As after an emergency: all is failed over, and the other cluster is away. It goes on when there is something."""
    bench = Bench(own, tmp_path)
    source, target = own["source"].bootstrap, own["target"].bootstrap
    with bench.start(bench.properties("rest-.*")) as process:
        process.wait_line("nothing to mirror yet", PATIENCE_SECONDS)
        own["target"].pause_broker(0)
        time.sleep(SESSION_SECONDS + 5)
        own["target"].resume_broker(0)
        woken = time.monotonic()
        create_topic(source, "rest-late", 1)
        produce(source, Load("rest-late", 10, 1, 100))
        wait_until(
            lambda: end_offsets(target, "source.rest-late") == {0: 10}, "its ten records", PATIENCE_SECONDS
        )
        measured(f"target hung, nothing to mirror: a new topic came {time.monotonic() - woken:.1f} s after")
        answer = process.stop()
    assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
