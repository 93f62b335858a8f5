"""What a running ``mmtool replicate`` takes over from its changed file, and how fast it may be."""

import os
import re
import signal
import time

import pytest

from kit.bench import Stage
from kit.broker_watch import wait_for_new_records
from kit.load import Load, produce
from kit.segments import stored_bytes
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 60
APPLIED_SECONDS = 5
WINDOW_SECONDS = 10.0
MEGABYTE = 1_000_000
BULK_RECORDS = 90_000
THROTTLE = "source->target.mmtool.throttle.bytes.per.second"


class Live:
    """A stage whose flow runs in two tasks, with a topic full of records, and its file, which is edited."""

    def __init__(self, stage):
        self.stage = stage
        self.bulk = f"{stage.prefix}-bulk"
        self.settings = {"mmtool.spark.master": "local[2,4]"}
        self.process = None

    def text(self, **extra):
        topics = extra.pop("topics", f"{self.stage.prefix}-.*")
        return self.stage.bench.text(topics, **self.settings, **extra)

    def save(self, text):
        """As editors and configuration management do it: a new file takes the old one's place."""
        new = self.stage.properties.with_suffix(".new")
        new.write_text(text)
        new.replace(self.stage.properties)

    def edited(self, said, **extra):
        """Saves the file with other settings; the seconds until the process says so."""
        before = len(self.process.stderr)
        started = time.monotonic()
        self.save(self.text(**extra))
        return self.heard(said, before) - started

    def heard(self, said, before):
        """When something was said on stderr behind a place in it."""
        wait_until(
            lambda: re.search(said, self.process.stderr[before:]),
            f"{said!r} in:\n{self.process.stderr}",
            PATIENCE_SECONDS,
        )
        return time.monotonic()

    def mirrored_bytes(self):
        target = self.stage.bench.fleet["target"]
        return sum(stored_bytes(target, name) for name in (f"source.{self.bulk}", *self.stage.targets))

    def rate(self, seconds=WINDOW_SECONDS):
        """Bytes per second on the target over a window."""
        started, before = time.monotonic(), self.mirrored_bytes()
        time.sleep(seconds)
        return (self.mirrored_bytes() - before) / (time.monotonic() - started)

    def ends(self, topic):
        return end_offsets(self.stage.bench.fleet["target"].bootstrap, topic)

    def has_all_of_the_bulk(self):
        return sum(self.ends(f"source.{self.bulk}").values()) == BULK_RECORDS

    def moves(self, topic, seconds=1.5):
        before = self.ends(topic)
        time.sleep(seconds)
        return self.ends(topic) != before


@pytest.fixture(scope="module")
def live(bench):
    with Stage(bench, f"live-{os.getpid()}", records_per_second=100.0) as stage:
        scene = Live(stage)
        source = bench.fleet["source"].bootstrap
        create_topic(source, scene.bulk, 5)
        produce(source, Load(scene.bulk, BULK_RECORDS, 2, 1000, "none"))  # the other partitions stay empty
        scene.save(scene.text(**{THROTTLE: str(2 * MEGABYTE)}))
        scene.process = stage.start()
        scene.process.wait_line("throttled at 2.0 MB/s", PATIENCE_SECONDS)
        wait_until(lambda: scene.ends(f"source.{scene.bulk}").get(0), "the first records", PATIENCE_SECONDS)
        yield scene


def test_a_flow_is_as_fast_as_its_throttle_lets_it_and_another_one_holds_within_seconds(live, measured):
    """Within a tenth, in two tasks with uneven work, also after a change."""
    learned = wait_until(
        lambda: live.rate(2) > 1.8 * MEGABYTE, "the tasks to share the work", PATIENCE_SECONDS
    )
    measured(f"two tasks shared a throttle by their work after {learned:.1f} s")
    slow = live.rate()
    seconds = live.edited(r"reloaded: .*throttle", **{THROTTLE: str(4 * MEGABYTE)})
    time.sleep(2)
    fast = live.rate(WINDOW_SECONDS / 2)
    measured(
        f"throttle of 2 and 4 MB/s: {slow / 1e6:.2f} and {fast / 1e6:.2f} MB/s; changed in {seconds:.1f} s"
    )
    assert (slow, fast) == (
        pytest.approx(2 * MEGABYTE, rel=0.1),
        pytest.approx(4 * MEGABYTE, rel=0.1),
    )
    assert seconds < patience(APPLIED_SECONDS)

    live.edited("no longer throttled")
    rest = wait_until(live.has_all_of_the_bulk, "the rest", PATIENCE_SECONDS)
    measured(f"the rest without throttle after {rest:.1f} s")


def test_a_topic_left_out_and_taken_in_again_goes_on_where_it_stood(live, measured):
    """Others are not disturbed; nothing is lost and nothing comes twice."""
    plain, tx = live.stage.targets
    exclude = {"source->target.topics.exclude": f"{live.stage.topics[0]}"}

    out = live.edited(r"reloaded: changed in source->target: topics\.exclude", **exclude)
    started = time.monotonic()
    wait_until(lambda: not live.moves(plain), f"{plain} to rest", PATIENCE_SECONDS)
    out += time.monotonic() - started
    beside = wait_for_new_records(live.stage.bench.fleet["target"].bootstrap, [tx], PATIENCE_SECONDS)

    before = live.ends(plain)
    started = time.monotonic()
    live.save(live.text())
    wait_until(lambda: live.ends(plain) != before, f"{plain} to move", PATIENCE_SECONDS)
    back = time.monotonic() - started
    measured(f"a topic was left out after {out:.1f} s and taken in again after {back:.1f} s")
    measured(f"another one moved {beside:.1f} s after it was left out")
    assert back < APPLIED_SECONDS


def test_sighup_has_the_file_read_at_once_and_the_flow_is_exact_in_the_end(live, measured):
    before, started = len(live.process.stderr), time.monotonic()
    os.kill(live.process.pid, signal.SIGHUP)
    measured(
        f"SIGHUP was answered after {live.heard('no change for the running flows', before) - started:.1f} s"
    )
    assert live.stage.prove_exact(live.process) > 1000
    assert "lost its claim" not in live.process.stderr
    assert "round failed" not in live.process.stderr
