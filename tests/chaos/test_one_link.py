"""Clusters of three brokers that are well, and one broker that the command alone cannot reach, for a minute."""

import os
import time

import pytest

from kit.bench import Bench, Stage
from kit.chaos.place import Place
from kit.chaos.schedule import Side
from kit.lab_admin import leaders_of
from kit.link import LinkShape, Way

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark, pytest.mark.timeout(1800)]

BROKERS = 3
SILENT = LinkShape(silent=frozenset(Way))
SILENT_SECONDS = 60.0
STILL_SECONDS = 5.0
PATIENCE_SECONDS = 120.0
RECOVERY_SECONDS = 30.0


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with Place(tmp_path_factory.mktemp("links"), BROKERS) as made:
        yield made


def stage_on(place, folder, name):
    bench = Bench(place.fleet, folder, place.bootstraps)
    return Stage(bench, f"{name}-{os.getpid()}", replicas=BROKERS)


def led_by_others(stage, place, broker):
    """Mirrored partitions whose source is led by brokers that are well."""
    source = place.cluster(Side.SOURCE).bootstrap
    return {
        (remote, number)
        for topic, remote in zip(stage.topics, stage.targets, strict=True)
        for number, leader in leaders_of(source, topic).items()
        if leader != broker
    }


def longest_still(stage, partitions, seconds):
    """For how long any of them did not grow, within so many seconds."""
    began = time.monotonic()
    ends, moved, still = {}, dict.fromkeys(partitions, began), 0.0
    while time.monotonic() < began + seconds:
        now = stage.ends()
        for place in partitions:
            if now[place] != ends.get(place):
                moved[place] = time.monotonic()
        ends, still = now, max(still, time.monotonic() - min(moved.values()))
        time.sleep(0.25)
    return still


def test_partitions_of_the_source_s_other_brokers_go_on_all_the_time(place, tmp_path, measured):
    with stage_on(place, tmp_path, "there") as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        place.links[Side.SOURCE][1].change(SILENT)
        others = led_by_others(stage, place, 1)
        still = longest_still(stage, others, SILENT_SECONDS)
        place.heal(Side.SOURCE)
        seconds = stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        asked = stage.prove_exact(process)
        said = process.stderr
        assert "broker 1 of source does not answer: the partitions that it leads wait" in said, said
        assert "no partition waits for broker 1 of source any more" in said, said
        measured(
            f"a broker of the source out of reach for {SILENT_SECONDS:.0f} s: others' partitions stood still for"
            f" {still:.1f} s at most, all moved {seconds:.1f} s after its return; {asked} offsets exact"
        )
    assert 0 < len(others) < len(stage.topics) * stage.partitions
    assert (still < STILL_SECONDS, seconds < RECOVERY_SECONDS) == (True, True)


@pytest.mark.parametrize("broker", range(BROKERS))
def test_whatever_a_broker_of_the_target_leads_it_is_waited_for(place, tmp_path, measured, broker):
    """One of them leads the books, one coordinates who owns the flow."""
    with stage_on(place, tmp_path, f"here-{broker}") as stage:
        process = stage.start()
        stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        place.links[Side.TARGET][broker].change(SILENT)
        time.sleep(SILENT_SECONDS)
        assert process.alive, process.stderr
        place.heal(Side.TARGET)
        seconds = stage.wait_until_every_partition_moves(PATIENCE_SECONDS)
        asked = stage.prove_exact(process)
        measured(
            f"broker {broker} of the target out of reach for {SILENT_SECONDS:.0f} s: every partition moved"
            f" {seconds:.1f} s after its return; {asked} offsets exact"
        )
    assert seconds < RECOVERY_SECONDS
