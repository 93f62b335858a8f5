"""A stage for ``mmtool replicate``: clusters, running producers, the command as a process, and the verdict."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Self

from kit.broker_watch import MirrorWatch, group_members, wait_for_new_records
from kit.exactness import flow_identity, wrong_translations
from kit.lab_admin import compare_topics
from kit.processes import Answer, MmtoolProcess, run_mmtool
from kit.writers import RunningWriter
from mmtool.config import load_settings
from mmtool.errors import GateError
from mmtool.lab.ports import patience, wait_until
from mmtool.lab.topics import create_topic, end_offsets

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kit.exactness import Wrong
    from mmtool.config import FlowSettings
    from mmtool.lab.fleet import Fleet

_numbers = count(1)
_TERMINATED = 143  # after SIGTERM
_STILL_SECONDS = 2.0


@dataclass(frozen=True)
class Bench:
    """``mmtool replicate`` from the fleet's ``source`` to its ``target``, with files below ``directory``.

    Attributes:
        lines: More of what every properties file says.
    """

    fleet: Fleet
    directory: Path
    lines: Mapping[str, str] = field(default_factory=dict)

    def properties(self, topics: str, **extra: str) -> Path:
        """A properties file that mirrors ``topics`` and no heartbeats of MM2's; ``extra`` wins."""
        path = self.directory / f"mm2-{next(_numbers)}.properties"
        path.write_text(self.text(topics, **extra))
        return path

    def text(self, topics: str, **extra: str) -> str:
        """What `properties` writes."""
        settings = {
            "source->target.topics": topics,
            "source->target.heartbeats.replication.enabled": "false",
            "refresh.topics.interval.seconds": "2",
            **self.lines,
            **extra,
        }
        return self.fleet.properties([("source", "target")], **settings)

    def flow(self, properties: Path) -> FlowSettings:
        """The one flow of a properties file."""
        (flow,) = load_settings(properties, os.environ).flows
        return flow

    def start(
        self, properties: Path, *options: str, environ: Mapping[str, str] | None = None
    ) -> MmtoolProcess:
        """A running ``replicate``; a context manager."""
        arguments = ("replicate", "-c", str(properties), "--every", "1", *options)
        return MmtoolProcess(self._folder(), *arguments, environ=environ)

    def catch_up(self, properties: Path, *options: str, environ: Mapping[str, str] | None = None) -> Answer:
        """One ``replicate --until-caught-up`` to its end."""
        arguments = ("replicate", "-c", str(properties), "--until-caught-up", *options)
        return run_mmtool(self._folder(), *arguments, environ=environ)

    def ask(self, properties: Path, *words: str, output: str = "json") -> Answer:
        """Another command to its end, with its JSON document unless another output is named."""
        return run_mmtool(self._folder(), *words, "-c", str(properties), "-o", output)

    def _folder(self) -> Path:
        return self.directory / f"run-{next(_numbers)}"


@dataclass
class Stage:
    """Two topics with running producers, one of them transactional, and commands that mirror them.

    A context manager: at its end producers stop and processes are killed.
    """

    bench: Bench
    prefix: str
    partitions: int = 3
    replicas: int = 1
    records_per_second: float = 300.0
    topics_exist: bool = False
    _writers: list[RunningWriter] = field(default_factory=list)
    _writing: ExitStack = field(default_factory=ExitStack)
    _processes: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.topics = [f"{self.prefix}-plain", f"{self.prefix}-tx"]
        self.properties = self.bench.properties(f"{self.prefix}-.*")
        self.flow = self.bench.flow(self.properties)
        self.targets = [self.flow.remote_topic(topic) for topic in self.topics]

    def __enter__(self) -> Self:
        bootstrap = self.bench.fleet["source"].bootstrap
        for topic, transactions in zip(self.topics, (0, 12), strict=True):
            if not self.topics_exist:
                create_topic(bootstrap, topic, self.partitions, self.replicas)
            rate = self.records_per_second / (3 if transactions else 1)  # a transaction is many requests
            writer = RunningWriter(bootstrap, topic, self.partitions, rate, transactions=transactions)
            self._writers.append(self._writing.enter_context(writer))
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()
        self.stop_writing()

    def start(self, *options: str, environ: Mapping[str, str] | None = None) -> MmtoolProcess:
        """``mmtool replicate`` with this stage's properties file, always the same."""
        return self._processes.enter_context(self.bench.start(self.properties, *options, environ=environ))

    def members(self) -> list[str]:
        """Client ids of the flow's ownership group: its owner, and who would like to be."""
        fleet = self.bench.fleet
        group = flow_identity(fleet["source"], fleet["target"]).ownership_group
        return group_members(fleet["target"].bootstrap, group)

    def wait_for_new_records(self, timeout: float) -> float:
        """Until both mirrored topics move; the seconds it took."""
        return wait_for_new_records(self.bench.fleet["target"].bootstrap, self.targets, timeout)

    def watch(self) -> MirrorWatch:
        """How long records of the first topic are on their way."""
        fleet, names = self.bench.fleet, {"source": self.topics[0], "target": self.targets[0]}
        source, target = ((fleet[side].bootstrap, topic) for side, topic in names.items())
        return MirrorWatch(source, target)

    def ends(self) -> dict[tuple[str, int], int]:
        """How long each mirrored partition is, as far as there is any."""
        target = self.bench.fleet["target"].bootstrap
        return {(topic, p): end for topic in self.targets for p, end in end_offsets(target, topic).items()}

    def wait_until_every_partition_moves(self, timeout: float) -> float:
        """Until each mirrored partition is longer than it is now; the seconds it took."""
        before = self.ends()

        def moved() -> bool:
            now = self.ends()
            places = [(topic, p) for topic in self.targets for p in range(self.partitions)]
            return all(now.get(place, 0) > before.get(place, 0) for place in places)

        return wait_until(moved, f"records in every partition of {', '.join(self.targets)}", timeout)

    def stands_still(self, remote: str) -> bool:
        """Whether nothing comes into a mirrored topic for two seconds."""
        before = self.length(remote)
        time.sleep(_STILL_SECONDS)
        return self.length(remote) == before

    def length(self, remote: str) -> int:
        """How many offsets all partitions of a topic of the target have."""
        return sum(end_offsets(self.bench.fleet["target"].bootstrap, remote).values())

    def stop_writing(self) -> None:
        """Ends the producers; everything is acknowledged then."""
        for writer in self._writers:
            writer.ask_to_stop()
        self._writing.close()

    def differences(self) -> dict[str, str]:
        """Partitions whose records differ, and how; empty when both sides hold the same."""
        source, target = (self.bench.fleet[side].bootstrap for side in ("source", "target"))
        return {
            f"{topic}-{partition}": str(verdict)
            for topic, remote in zip(self.topics, self.targets, strict=True)
            for partition, verdict in compare_topics(source, topic, target, remote).items()
            if not verdict.is_identical
        }

    def wait_until_identical(self, timeout: float) -> None:
        """Until the mirror has caught up with the producers, which have stopped.

        Raises:
            GateError: It did not; the message tells how the partitions differ.
        """
        deadline = time.monotonic() + patience(timeout)
        while differences := self.differences():
            if time.monotonic() > deadline:
                raise GateError(f"after {timeout:.0f} s the mirror differs: {differences}")

    def prove_exact(self, process: MmtoolProcess, timeout: float = 60) -> int:
        """Ends the producers and then ``process``: both sides hold the same, every offset translates exactly.

        Returns:
            How many offsets were translated, there and back.

        Raises:
            GateError: The mirror differs, the stop was not clean, or a translation was wrong.
        """
        self.stop_writing()
        self.wait_until_identical(timeout)
        answer = process.stop()
        if answer.code != _TERMINATED or "Traceback" in answer.stderr:
            raise GateError(f"replicate ended with {answer.code} and said:\n{answer.stderr}")
        asked, wrong = self.wrong_translations()
        if wrong:
            raise GateError(f"{len(wrong)} of {asked} offsets were translated wrongly, such as {wrong[:5]}")
        return asked

    def wrong_translations(self) -> tuple[int, Sequence[Wrong]]:
        """As ``kit.exactness.wrong_translations``, of both topics."""
        fleet = self.bench.fleet
        return wrong_translations(self.flow, fleet["source"], fleet["target"], self.topics)
