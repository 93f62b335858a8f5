"""A broker of the source dies with the owner of the flow, and nobody else has its partitions; clusters of three."""

import os
import time
from contextlib import ExitStack, contextmanager

import pytest

from kit.bench import Bench
from kit.exactness import stored_maps, wrong_translations
from kit.lab_admin import compare_topics, leaders_of
from kit.writers import RunningWriter
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import create_topic, end_offsets

pytestmark = [pytest.mark.chaos, pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 60
RECOVERS_SECONDS = 30
A_MARKER, RECORDS = 1, 10  # a fence leaves the first: it is no record that came
KILLS = 5  # books may be written in the very moment of one
NOBODY = -1  # Kafka's leader of what has none


class Topics:
    """Six topics of one partition and one replica, each with a writer of its own; brokers lead two each, about."""

    def __init__(self, bench, stem):
        self.properties = bench.properties(f"{stem}-.*")
        self.flow = bench.flow(self.properties)
        self.source, self.target = bench.fleet["source"], bench.fleet["target"]
        self.names = [f"{stem}-{n}" for n in range(6)]
        for name in self.names:
            create_topic(self.source.bootstrap, name, 1, 1)
        self.writers = [
            RunningWriter(self.source.bootstrap, name, 1, 60.0, tolerant=True) for name in self.names
        ]

    def led_by(self, broker):
        return [name for name in self.names if leaders_of(self.source.bootstrap, name)[0] == broker]

    def mirrored(self, name):
        """How long its mirror is."""
        return end_offsets(self.target.bootstrap, self.flow.remote_topic(name)).get(0, 0)

    def wait_for_growth(self, names):
        before = {name: self.mirrored(name) for name in names}
        return wait_until(
            lambda: all(self.mirrored(name) > end + RECORDS for name, end in before.items()),
            f"growth of {', '.join(names)}",
            PATIENCE_SECONDS,
        )

    def unbooked(self, ends):
        """Whose mirror is longer than its books say."""
        maps = stored_maps(self.flow, self.source, self.target)
        return [name for name, end in ends.items() if maps[name, 0].tail.target_verified_end < end]

    def differences(self):
        pairs = [(name, self.flow.remote_topic(name)) for name in self.names]
        return [
            name
            for name, remote in pairs
            for verdict in compare_topics(self.source.bootstrap, name, self.target.bootstrap, remote).values()
            if not verdict.is_identical
        ]


@contextmanager
def without(cluster, broker):
    """The broker is dead until the context ends."""
    cluster.kill_broker(broker)
    try:
        yield
    finally:
        cluster.start_broker(broker)


def test_what_has_no_leader_on_the_source_waits_alone_and_goes_on_by_itself(threes, tmp_path, measured):
    """The dead owner left records of it in no book: they are compared when its broker is back, and come once."""
    bench = Bench(threes, tmp_path)
    topics = Topics(bench, f"gone-{os.getpid()}")
    with ExitStack() as stack:
        for writer in topics.writers:
            stack.enter_context(writer)
        victim = leaders_of(topics.source.bootstrap, topics.names[0])[0]
        dead = topics.led_by(victim)
        others = [name for name in topics.names if name not in dead]
        for _ in range(KILLS):
            process = stack.enter_context(bench.start(topics.properties, "--standby"))
            topics.wait_for_growth(topics.names)
            process.kill_all()
            ends = {name: topics.mirrored(name) for name in dead}
            if unbooked := topics.unbooked(ends):
                break
        assert unbooked, "nothing was left unbooked"
        with without(topics.source, victim):
            wait_until(lambda: set(dead) == set(topics.led_by(NOBODY)), "no leader", PATIENCE_SECONDS)
            began = time.monotonic()
            second = stack.enter_context(bench.start(topics.properties, "--standby"))
            topics.wait_for_growth(others)
            meanwhile = time.monotonic() - began
            second.wait_line(r"has no leader: the last owner's unrecorded records", PATIENCE_SECONDS)
            grown = [topics.mirrored(name) - ends[name] for name in dead]
            assert max(grown) <= A_MARKER, grown
        back = topics.wait_for_growth(topics.names)

        for writer in topics.writers:
            writer.ask_to_stop()
        for writer in topics.writers:
            writer.stop()
        wait_until(lambda: topics.differences() == [], "both sides hold the same", PATIENCE_SECONDS)
        answer = second.stop()
    assert (answer.code, "Traceback" in answer.stderr) == (143, False), answer.stderr
    asked, wrong = wrong_translations(topics.flow, topics.source, topics.target, topics.names)
    assert wrong == []
    measured(
        f"source broker and owner dead: others moved {meanwhile:.1f} s after the next start, all {back:.1f} s after"
        f" the broker's return; {asked} offsets exact"
    )
    assert back < RECOVERS_SECONDS
