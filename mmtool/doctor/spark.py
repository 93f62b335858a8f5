"""The check of what a flow's Spark needs: Java, memory of this host, a reachable master; Spark is not started."""

from __future__ import annotations

import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.doctor.finding import NEITHER, flow_check, ok, problem, warning
from mmtool.errors import UsageError
from mmtool.java import java_binary
from mmtool.output.human import size
from mmtool.plan.flow.slots import asked_slots
from mmtool.plan.words import counted
from mmtool.runtime.process import usable_cores

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mmtool.config import FlowSettings
    from mmtool.doctor.examination import ExaminedFlow
    from mmtool.doctor.finding import Finding


_SECONDS = 3.0
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_MASTER = re.compile(r"(?:spark|sc|k8s)://(?:https?://)?([^;/]+)")
_DEFAULT_PORTS = {"spark": 7077, "sc": 15002, "k8s": 443}


@flow_check("spark", asks=NEITHER)
def check_spark(flow: ExaminedFlow) -> Iterator[Finding]:
    """Java 17 or later, this host's memory, a connection to `mmtool.spark.master`. Spark is not started.

    Problem: no Java; no master answers; YARN without its configuration; `spark.speculation = true`
    Warning: one of several masters does not answer; less memory than driver and workers may use
    Effect: `replicate` does not start; the kernel may kill processes
    Remedy: install Java; `mmtool.spark.master`; `mmtool.buffer.bytes`
    """
    java, fault = "", ("", "")
    try:
        java = str(java_binary())
    except UsageError as error:
        fault = (error.message, error.remedy)
    addresses = master_addresses(flow.settings.spark_master)
    return judge_spark(
        SparkFacts(
            flow.settings,
            java,
            fault,
            unreachable_addresses(addresses),
            addresses,
            usable_cores(),
            memory_bytes(),
            any(os.environ.get(name) for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR")),
        )
    )


def memory_bytes() -> int | None:
    """The memory of this host, or of the container that this process runs in, in bytes; None where it is unknown."""
    limits: list[int] = []
    for path in _CGROUP_LIMITS:
        with suppress(OSError, ValueError):
            limits.append(int(path.read_text()))
    with suppress(ValueError, OSError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    return min(limits, default=None)


def master_addresses(master: str | None) -> tuple[str, ...]:
    """``host:port`` of each master of a Spark URL; none for local mode and YARN."""
    found = _MASTER.match(master or "")
    if found is None or master is None:
        return ()
    port = _DEFAULT_PORTS[master.partition(":")[0]]
    return tuple(one if ":" in one else f"{one}:{port}" for one in found[1].split(","))


def unreachable_addresses(addresses: tuple[str, ...]) -> dict[str, str]:
    """The addresses that accept no connection, each with the reason."""
    if not addresses:
        return {}
    with ThreadPoolExecutor(len(addresses)) as pool:
        said = pool.map(_why_unreachable, addresses)
        return {address: why for address, why in zip(addresses, said, strict=True) if why}


def _why_unreachable(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
    except TimeoutError:
        return f"no answer in {_SECONDS:g} s"
    except (OSError, ValueError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return ""


_MIB = 1 << 20
DRIVER_HEAP = 512 * _MIB
"""The default of ``spark.driver.memory`` in bytes, where the file does not set it."""
_JVM_BESIDE_HEAP = 256 * _MIB
_WORKER = 256 * _MIB
"""Bytes of a Python worker without its ``mmtool.buffer.bytes``: `tests/integration/test_replicate_memory.py`."""
_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SPECULATION = "spark.speculation"


@dataclass(frozen=True, slots=True)
class SparkFacts:
    """The facts about one flow's Spark.

    Attributes:
        settings: The flow's settings.
        java: The binary; empty without a usable one.
        java_fault: Why there is none, and the remedy.
        unreachable: The master's addresses that accept no connection, and why.
        addresses: All of the master's.
        cores: Of this host.
        memory: Of this host, bytes; None where it is unknown.
        has_hadoop_conf: HADOOP_CONF_DIR or YARN_CONF_DIR is set.
    """

    settings: FlowSettings
    java: str
    java_fault: tuple[str, str]
    unreachable: Mapping[str, str]
    addresses: tuple[str, ...]
    cores: int
    memory: int | None
    has_hadoop_conf: bool = False

    @property
    def master(self) -> str | None:
        return self.settings.spark_master

    @property
    def conf(self) -> Mapping[str, str]:
        return self.settings.spark_conf

    @property
    def is_local(self) -> bool:
        return self.master is None or self.master.startswith("local")

    @property
    def has_driver_here(self) -> bool:
        """Whether Spark's driver runs on this host: a Spark Connect server runs it elsewhere."""
        return self.master is None or not self.master.startswith("sc://")

    @property
    def slots(self) -> int | None:
        """The slots that Spark is asked for; None where it takes all that the cluster has."""
        if self.master is None:
            return max(1, self.cores // 2)
        return _local_slots(self.master, self.cores) or asked_slots(self.master, self.conf)

    @property
    def needed_here(self) -> int:
        """Bytes of memory used on this host: by the driver and by its workers, where they run here."""
        if not self.has_driver_here:
            return 0
        heap = _bytes_of(self.conf.get("spark.driver.memory", "")) or DRIVER_HEAP
        return heap + _JVM_BESIDE_HEAP + self.workers_here * (_WORKER + self.settings.buffer_bytes)

    @property
    def workers_here(self) -> int:
        """How many workers run on this host."""
        return min(self.slots or 0, self.settings.shards) if self.is_local else 0


def _local_slots(master: str, cores: int) -> int | None:
    if not master.startswith("local") or master.startswith("local-cluster"):
        return None
    inside = master.partition("[")[2].rstrip("]").partition(",")[0].strip()
    if inside == "*":
        return cores
    return int(inside) if inside.isdecimal() else 1


def _bytes_of(text: str) -> int | None:
    """The bytes of a size as Spark writes it: ``512m``, ``2g``, ``1gb``; None where it is none."""
    word = text.strip().lower().removesuffix("b")
    number, unit = (word[:-1], word[-1]) if word[-1:] in _UNITS else (word, "m")
    return int(number) * _UNITS[unit] if number.isdecimal() else None


def judge_spark(facts: SparkFacts) -> Iterator[Finding]:
    """Findings about what keeps `replicate` from copying, or exceeds this host's memory."""
    found = [*_of_master(facts), *_of_memory(facts)]
    if not facts.java:
        found = [problem("", facts.settings.name, *facts.java_fault), *found]
    where = "this host" if facts.is_local else str(facts.master)
    slots = "all slots" if facts.slots is None else counted(facts.slots, "slot")
    shards = f"{counted(facts.settings.shards, 'shard')} (mmtool.shards)"
    yield from found or [ok(f"Java is {facts.java}; Spark uses {slots} of {where} for {shards}")]


def _of_master(facts: SparkFacts) -> Iterator[Finding]:
    if facts.conf.get(_SPECULATION, "").strip().lower() == "true":
        message = (
            f"mmtool.spark.conf.{_SPECULATION} = true: `mmtool replicate` does not start, because a second attempt of a"
            " running task would keep the first from writing"
        )
        remedy = f"remove mmtool.spark.conf.{_SPECULATION}; Spark still retries a task that fails"
        yield problem("", facts.settings.name, message, remedy)
    if facts.master == "yarn" and not facts.has_hadoop_conf:
        message = (
            "mmtool.spark.master = yarn, and neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set: Spark cannot"
            " find YARN"
        )
        yield problem(
            "", facts.settings.name, message, "set HADOOP_CONF_DIR to the folder with yarn-site.xml"
        )
    for address, why in facts.unreachable.items():
        lone = len(facts.unreachable) == len(facts.addresses)
        say = problem if lone else warning
        spared = "" if lone else "; another master in mmtool.spark.master answers"
        message = f"Spark master {address} cannot be reached from this host: {why}{spared}"
        remedy = "start the master, or correct mmtool.spark.master"
        yield say("", facts.settings.name, message, remedy)


def _of_memory(facts: SparkFacts) -> Iterator[Finding]:
    if facts.memory is not None and facts.needed_here > facts.memory:
        workers = f" and {counted(facts.workers_here, 'worker')}" if facts.is_local else ""
        needed, have = size(facts.needed_here), size(facts.memory)
        message = (
            f"Spark's driver{workers} may use {needed} of memory, and this host has {have}: the kernel may kill"
            " processes"
        )
        remedy = f"run mmtool on a host or in a container with at least {needed}"
        if facts.workers_here:
            remedy = "lower mmtool.buffer.bytes or the slots of mmtool.spark.master (local[N]), or use a Spark cluster"
        elif facts.conf.get("spark.driver.memory"):
            remedy = f"lower mmtool.spark.conf.spark.driver.memory, or {remedy}"
        yield warning("", facts.settings.name, message, remedy)
