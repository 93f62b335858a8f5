"""The demo as a tour: two clusters, running applications, replication, a planned failover, and the proof.

The clusters end with it, or are a lab that stays.

Every figure that it shows was measured in this very run. The clusters, the applications and the checker are
the demo's; replication and failover are the real commands, each a process of its own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from mmtool.errors import CheckFailedError, MmtoolError, RefusedError, StoppedError
from mmtool.lab import session
from mmtool.lab.artifacts import KAFKA_VERSION, is_cached
from mmtool.lab.demo_apps import (
    ORDERS,
    PARTITIONS,
    PAYMENTS,
    TOPICS,
    TRY_LATER,
    Application,
    GroupProof,
    Reading,
    Worker,
    Writer,
    count,
    differences,
    end_together,
    numbers,
    prove,
)
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import wait_until
from mmtool.lab.process import LeashedProcess, down_command
from mmtool.lab.topics import create_topic, end_offsets, histories, read_topic
from mmtool.plain_text import Lines
from mmtool.plan.words import counted, joined
from mmtool.runtime.process import ended_by_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager

    from mmtool.lab.state import StateDirectory
    from mmtool.lab.topics import Isolation
    from mmtool.output.progress import Steps

EAST, WEST = "east", "west"
_END_SECONDS = 20.0
_TIMES = re.compile(r"^\d{4}-\d\d-\d\dT\S+Z ", re.MULTILINE)
_LAST_CODE = 10  # of the contract's; above them are signals
SHARES = {"billing": 1.0, "shipping": 0.5, "reporting": 0.08}
"""Of all records, what each group has read when it is stopped on east."""
STEPS = 8
_REMOTE = {f"{EAST}.{topic}": topic for topic in TOPICS}  # MM2's DefaultReplicationPolicy
_SAME = {topic: topic for topic in TOPICS}
_POLL_SECONDS = 0.25
_WAIT_SECONDS = 120.0  # Spark starts in 8 s alone; the rest is for machines that do other things as well
_TOGETHER_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class TwoClusters:
    """Two running clusters.

    Attributes:
        directory: Logs of brokers and commands.
        bootstrap: Of each cluster, by its alias.
        properties: The file that connects them, the same for mmtool and MirrorMaker 2.
    """

    directory: Path
    bootstrap: dict[str, str]
    properties: Path

    def line(self, *words: str) -> list[str]:
        """The command line of ``mmtool WORDS`` by this installation, with the stage's properties file."""
        as_text = ("--log-format", "text")
        return [sys.executable, "-P", "-m", "mmtool", *words, "-c", str(self.properties), *as_text]


@contextmanager
def temporary(directory: Path) -> Iterator[TwoClusters]:
    """Run two clusters that end with this process, however it ends; after a failure their logs are kept."""
    fleet = Fleet.of(directory, EAST, WEST)
    try:
        fleet.start()
        properties = directory / "mmtool.properties"
        properties.write_text(fleet.properties([(EAST, WEST)]))
        yield TwoClusters(directory, {cluster.name: cluster.bootstrap for cluster in fleet}, properties)
    except BaseException:
        fleet.kill()
        fleet.remove_data()
        raise
    fleet.kill()  # nothing that they hold is wanted again


@contextmanager
def kept(directory: StateDirectory) -> Iterator[TwoClusters]:
    """Run a detached lab that stays after a completed demo; otherwise it is stopped with the demo.

    Raises:
        RefusedError: A lab runs there already.
    """
    if directory.is_running():
        raise RefusedError(
            f"a demo or lab runs in {directory.path}",
            remedy=f"stop it and delete its data: {down_command(directory.path)}",
            code="lab_running",
        )
    session.down(directory)  # what a lab that was killed has left
    try:
        state, _ = session.up(directory, session.LabRequest((EAST, WEST)))
        bootstrap = {broker.cluster: broker.bootstrap for broker in state.brokers}
        yield TwoClusters(directory.path, bootstrap, directory.properties)
    except (KeyboardInterrupt, StoppedError):
        session.down(directory)
        raise
    except BaseException:
        session.down(directory, keep_data=True)  # with the logs
        raise


@contextmanager
def folder() -> Iterator[Path]:
    """Create a folder that is kept where its block raises an error, and removed otherwise."""
    path = Path(tempfile.mkdtemp(prefix="mmtool-demo-"))
    try:
        yield path
    except (KeyboardInterrupt, StoppedError):
        shutil.rmtree(path, ignore_errors=True)
        raise
    shutil.rmtree(path, ignore_errors=True)


class Replicating:
    """``mmtool replicate`` as a process that is killed when this one dies; its stderr is in a log."""

    def __init__(self, stage: TwoClusters) -> None:
        self._process = LeashedProcess(
            stage.line("replicate", "--every", "2"), stage.directory / "replicate.log"
        )
        self._shown = 0

    def check(self) -> None:
        """Raise the command's own error, with its exit code, if it has ended."""
        if not self._process.alive:
            code, log = self._process.wait(), self._process.log
            raise failure_of("mmtool replicate", code, _messages(log))

    def news(self) -> list[str]:
        """The log lines since the last call."""
        lines = _messages(self._process.log).split("\n")[:-1]
        fresh, self._shown = lines[self._shown :], len(lines)
        return fresh

    def stop(self) -> None:
        """Stop the command cleanly, as by Ctrl-C."""
        self._process.terminate(_END_SECONDS)


def ask(stage: TwoClusters, name: str, *words: str) -> dict[str, Any]:
    """The row of ``mmtool WORDS -o json``, run to its end; both streams are kept as files named ``name``.

    Raises:
        MmtoolError: The command ended with another code than 0, which is the error's exit code.
    """
    out, err = (stage.directory / f"{name}.{kind}" for kind in ("json", "log"))
    with out.open("wb") as stdout, err.open("wb") as stderr:
        line = [*stage.line(*words), "-o", "json"]
        ended = subprocess.run(line, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, check=False)
    if ended.returncode != 0:
        raise failure_of(f"mmtool {' '.join(words[:2])}", ended.returncode, _messages(err))
    row: dict[str, Any] = json.loads(out.read_text())["data"][0]
    return row


def _messages(log: Path) -> str:
    """A command's log without the times at which its lines begin."""
    return _TIMES.sub("", log.read_text(errors="replace"))


def failure_of(what: str, code: int, said: str) -> MmtoolError:
    """A command's last error as an exception with its exit code; a killed command's exit code is 1."""
    told = [line.removeprefix("error: ") for line in said.splitlines() if line.startswith("error: ")]
    last = told or said.strip().splitlines() or ["no message"]
    error = MmtoolError(f"{what} ended with exit code {code}: {last[-1]}", code="command_failed")
    error.exit_code = code if 0 < code <= _LAST_CODE else 1
    return error


class TourRow(TypedDict):
    """One group in `mmtool demo`.

    Attributes:
        group: Its name.
        read_on_east: Records that it read before the failover.
        read_on_west: Records that it read after the failover.
        committed_records: Records of the source's log that it has to read.
        skipped: Records that it did not read.
        reread: Records that it read more than once.
        foreign: Records that it read and that are not in the log.
        verdict: The result in words.
        failover_seconds: How long the failover took.
        seconds: How long the demo took.
    """

    group: str
    read_on_east: int
    read_on_west: int
    committed_records: int
    skipped: int
    reread: int
    foreign: int
    verdict: str
    failover_seconds: float
    seconds: float


@dataclass(slots=True)
class Tour:
    """The measurements of a finished tour. Times in seconds."""

    logs: Path
    proofs: list[GroupProof] = field(default_factory=list)
    failover_seconds: float = 0.0
    seconds: float = 0.0

    @property
    def error(self) -> CheckFailedError | None:
        """The error by which the proof failed; None where it holds."""
        wrong = [proof for proof in self.proofs if not proof.holds]
        if not wrong:
            return None
        first = wrong[0]
        return CheckFailedError(
            f"{len(wrong)} of {counted(len(self.proofs), 'group')} did not read every record exactly once;"
            f" {first.group}: {first.verdict}",
            remedy=_in_logs(self.logs),
            code="not_exact",
        )

    @property
    def rows(self) -> list[TourRow]:
        """The results of each group as a row."""
        return [
            {
                "group": proof.group,
                "read_on_east": proof.read_before,
                "read_on_west": proof.read_after,
                "committed_records": proof.committed,
                "skipped": proof.skipped,
                "reread": proof.reread,
                "foreign": proof.foreign,
                "verdict": proof.verdict,
                "failover_seconds": round(self.failover_seconds, 3),
                "seconds": round(self.seconds, 3),
            }
            for proof in self.proofs
        ]

    @property
    def summary(self) -> str:
        """The whole tour in one line."""
        skipped, reread = (sum(getattr(p, what) for p in self.proofs) for what in ("skipped", "reread"))
        return (
            f"{len(self.proofs)} groups, {self.proofs[0].committed:,} records, {skipped} skipped,"
            f" {reread} re-read, failover took {self.failover_seconds:.1f} s, the whole demo {self.seconds:.0f} s"
        )


def tour(stage: AbstractContextManager[TwoClusters], logs: Path, tell: Steps) -> Tour:
    """Run all steps of the demo, and end everything that the stage does not keep.

    Raises:
        MmtoolError: A step failed; the message names the step, the remedy the folder of the logs.
    """
    story = _Story(tell, logs)
    with ended_by_signals():
        try:
            with ExitStack() as stack:
                story.play(stack, stage)
        except (StoppedError, KeyboardInterrupt):
            raise
        except Exception as error:
            raise _placed(error, tell, logs) from error
    return story.tour


def _in_logs(logs: Path) -> str:
    return f"read the logs in {logs}"


def _placed(error: Exception, tell: Steps, logs: Path) -> MmtoolError:
    """The error with its step and the folder of logs added; its exit code stays."""
    known = error if isinstance(error, MmtoolError) else MmtoolError(f"{type(error).__name__}: {error}")
    remedy = joined(known.remedy, _in_logs(logs))
    message = f"step {tell.number} ({tell.title}): {known.message}"
    if isinstance(known.message, Lines):
        message = Lines(message)
    told = MmtoolError(message, remedy=remedy, code=known.code)
    told.exit_code = known.exit_code
    return told


class _Story:
    """The steps, and what each leaves for the next."""

    def __init__(self, tell: Steps, logs: Path) -> None:
        self.tell, self.began, self.tour = tell, time.monotonic(), Tour(logs)
        self.stage: TwoClusters
        self.writers: list[Writer]
        self.readers: list[Application]
        self.replicating: Replicating
        self.after: dict[str, Reading]
        self.watched: list[Callable[[], None]] = []

    def play(self, stack: ExitStack, stage: AbstractContextManager[TwoClusters]) -> None:
        self.clusters(stack, stage)
        self.applications(stack)
        self.replicate(stack)
        self.stop_applications()
        self.rehearse()
        self.failover()
        self.go_on(stack)
        self.proof()

    def clusters(self, stack: ExitStack, stage: AbstractContextManager[TwoClusters]) -> None:
        self.tell.begin(
            f"start two Kafka clusters, {EAST} and {WEST}",
            f"Kafka {KAFKA_VERSION}, KRaft, one broker per cluster",
        )
        if not is_cached():
            self.tell.note("downloading Kafka (about 45 MB); the next start uses the downloaded copy")
        self.stage = stack.enter_context(stage)
        self.tell.done(", ".join(f"{alias} at {at}" for alias, at in self.stage.bootstrap.items()))

    def applications(self, stack: ExitStack) -> None:
        east = self.stage.bootstrap[EAST]
        self.tell.begin(
            f"start applications on {EAST}",
            f"producers of {ORDERS} (plain) and {PAYMENTS} (transactions, every fifth aborted); three consumer groups",
        )
        for topic in TOPICS:
            create_topic(east, topic, PARTITIONS)
        self.writers = [
            Writer(east, ORDERS, history=36_000, handful=3_000, per_second=400),
            Writer(east, PAYMENTS, history=12_000, handful=300, per_second=150, transactional=True),
        ]
        self.readers = [Application(east, *own, _SAME, self.written) for own in SHARES.items()]
        stack.callback(end_together, self.workers())
        for worker in self.workers():
            self.watched.append(worker.start().check)
        self.tell.done(
            "the applications run: producers first write a history at full speed, then new records at a steady rate"
        )

    def replicate(self, stack: ExitStack) -> None:
        """Replicate until the mirror has the complete history of the producers, and for a few more seconds."""
        self.tell.begin(
            f"mmtool replicate -c {self.stage.properties.name}",
            "a Spark job copies the records; Spark takes about 8 s to start on an idle machine",
        )
        began = time.monotonic()
        self.replicating = Replicating(self.stage)
        stack.callback(self.replicating.stop)
        self.watched.extend([self.replicating.check, self._relay])
        self.wait(
            f"the producers to write their history on {EAST}",
            lambda: all(writer.has_history for writer in self.writers),
        )
        goal = self.written()
        self.wait(f"{goal} records on {WEST}", lambda: self.mirrored() >= goal)
        caught_up = time.monotonic() - began
        self.tell.note(f"{goal:,} records were on {WEST} {caught_up:.1f} s after the command started")
        pace = self._pace()
        mirrored = self.mirrored()  # asked first, and a record lies on east before its producer knows
        behind = max(0, self.written() - mirrored)
        self.tell.done(
            f"{pace:,.0f} records/s mirrored in the last {_TOGETHER_SECONDS:.0f} s; {behind:,} not yet on {WEST}"
        )

    def _pace(self) -> float:
        """The records per second that reach west while everything runs."""
        began, before = time.monotonic(), self.mirrored()
        self.wait("some more records", lambda: time.monotonic() - began > _TOGETHER_SECONDS)
        return (self.mirrored() - before) / (time.monotonic() - began)

    def stop_applications(self) -> None:
        """Stop the producers, then the consumers; each group commits its position and leaves."""
        self.tell.begin("stop the applications", f"{EAST} gets no new records; replicate keeps running")
        for worker in self.workers():
            worker.finish()
        aborted = sum(writer.aborted for writer in self.writers)
        self.tell.note(
            f"written: {self.written():,} committed records, and {aborted:,} in aborted transactions"
        )
        for reader in self.readers:
            read = count(reader.reading)
            self.tell.note(
                f"{reader.group:<10} has read {read:>7,} committed records{_behind_marker(reader)}"
            )
        self.tell.done("every group has committed its offsets and has no members")

    def rehearse(self) -> None:
        self.tell.begin(
            "mmtool failover planned, as a rehearsal", "shows what would happen; nothing is changed"
        )
        row = ask(self.stage, "rehearsal", *self.move())
        for step in row["steps"]:
            self.tell.note(f"{step['name']:<14} {step['sentence']}")
        self.tell.done(f"{row['state']}: the failover can be executed")

    def failover(self) -> None:
        words = [*self.move(), "--execute", "--yes", "--timeout", "120s"]
        self.tell.begin(f"mmtool {' '.join(words[:-2])}", "three groups, both topics, at once")
        began = time.monotonic()
        row = ask(self.stage, "failover", *words)
        for group in row["groups"]:
            self.tell.note(_moved(group))
        self.tour.failover_seconds = time.monotonic() - began
        self.tell.done(
            f"{row['state']}, {row['rpo_records']} records lost,"
            f" {row['reread_records']} to be read again; {row['rto_seconds']:.1f} s from the first"
            " check to the last offset read back"
        )

    def go_on(self, stack: ExitStack) -> None:
        """Continue the same groups on west; each reads to the end and stops."""
        self.tell.begin(f"continue to consume on {WEST}", f"the same groups read {', '.join(_REMOTE)}")
        west = self.stage.bootstrap[WEST]
        readers = [Application(west, group, 1.0, _REMOTE, self.written) for group in SHARES]
        stack.callback(end_together, [reader.worker for reader in readers])
        for reader in readers:
            reader.worker.start().stopping.set()  # to the end, and no further
        for reader in readers:
            reader.worker.wait()
        self.after = {reader.group: reader.reading for reader in readers}
        read = ", ".join(f"{group} {count(reading):,}" for group, reading in self.after.items())
        self.tell.done(f"read on {WEST}: {read}")
        self.replicating.check()
        self.replicating.stop()

    def proof(self) -> None:
        self.tell.begin(
            "compare the records of both clusters",
            "compares every record of both logs, including the number that the demo's producer wrote into the record",
        )
        with ThreadPoolExecutor(2) as pool:
            logs = pool.map(
                _read_log,
                self.stage.bootstrap.values(),
                (_SAME, _REMOTE),
                ("read_committed", "read_uncommitted"),
            )
            east, west = logs
        for writer in self.writers:  # check the measure: a reader finds what the producers committed
            if numbers(east[writer.topic]) != {p: known for p, known in writer.committed.items() if known}:
                raise CheckFailedError(
                    f"topic {writer.topic} on {EAST} does not hold the records that its producer committed",
                    code="ledger",
                )
        wrong = differences(east, west)
        if wrong:
            place, verdict = next(iter(wrong.items()))
            raise CheckFailedError(f"{place} differs on {WEST}: {verdict}", code="not_identical")
        self.tell.note(
            f"{WEST} holds the same {count(west):,} records: keys, values, headers, timestamps, order; none aborted"
        )
        self.tour.proofs = [
            prove(reader.group, east, reader.reading, self.after[reader.group]) for reader in self.readers
        ]
        self.tour.seconds = time.monotonic() - self.began
        self.tell.done(
            f"each group's records before and after the failover, compared with the log of {EAST}:"
        )

    def move(self) -> list[str]:
        return ["failover", "planned", *(word for group in SHARES for word in ("-g", group))]

    def written(self) -> int:
        return sum(writer.written for writer in self.writers)

    def workers(self) -> list[Worker]:
        return [*(w.worker for w in self.writers), *(r.worker for r in self.readers)]

    def mirrored(self) -> int:
        """The number of records on west, by its log ends: a mirror has no transaction markers."""
        west = self.stage.bootstrap[WEST]
        return sum(sum(end_offsets(west, topic).values()) for topic in _REMOTE)

    def wait(self, what: str, done: Callable[[], bool]) -> None:
        """Wait for a condition, and check meanwhile that every part of the demo still runs.

        Raises:
            GateError: The condition was not met in time.
        """

        def is_done() -> bool:
            if done():
                return True
            for check in self.watched:
                check()
            return False

        wait_until(is_done, what, _WAIT_SECONDS, _POLL_SECONDS, remedy=TRY_LATER)

    def _relay(self) -> None:
        for line in self.replicating.news():
            if "no Connect workers" not in line:  # the lab's file serves MirrorMaker 2 as well
                self.tell.live(line)


def _read_log(bootstrap: str, topics: Mapping[str, str], isolation: Isolation) -> Reading:
    return {
        known: histories(read_topic(bootstrap, topic, isolation=isolation)) for topic, known in topics.items()
    }


def _behind_marker(reader: Application) -> str:
    """A clause about positions right after a transaction marker; empty where there is none."""
    behind = sum(behind for (topic, _), behind in reader.behind_marker.items() if topic == PAYMENTS)
    if not behind:
        return ""
    return f"; its offset is right after a transaction marker in {behind} of {PARTITIONS} partitions of {PAYMENTS}"


def _moved(group: dict[str, object]) -> str:
    partitions = group["partitions"]
    assert isinstance(partitions, list)
    written = [p for p in partitions if p["written"]]
    kinds = ", ".join(sorted({p["exactness"] for p in written}))
    example = next(p for p in written if p["topic"] == PAYMENTS)
    return (
        f"{group['group']:<10} {len(written)} offsets written, {kinds}; {PAYMENTS}-{example['partition']}:"
        f" offset {example['upstream_offset']:,} on {EAST} is offset {example['downstream_offset']:,} on {WEST}"
    )
