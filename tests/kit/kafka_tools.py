"""Kafka's own command-line tools and classes: run as an operator runs them, or called by small Java programs beside."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from mmtool.java import ClassArchive, java_binary
from mmtool.lab.artifacts import classpath
from mmtool.lab.cluster import JVM
from mmtool.lab.process import java_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_SECONDS = 60
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


def consumer_groups(bootstrap: str, *arguments: str) -> str:
    """``kafka-consumer-groups --bootstrap-server BOOTSTRAP ARGUMENTS``: what it wrote to stdout.

    Raises:
        AssertionError: It failed.
    """
    return run_tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", bootstrap, *arguments)


def list_topics(bootstrap: str, config: Path, jvm: Sequence[str] = ()) -> list[str]:
    """``kafka-topics --list`` with a file of client properties; raises as above."""
    words = ("--command-config", str(config), "--list")
    return run_tool("org.apache.kafka.tools.TopicCommand", bootstrap, *words, jvm=jvm).split()


def run_tool(tool: str, bootstrap: str, *arguments: str, jvm: Sequence[str] = ()) -> str:
    """One of Kafka's tools, by its class: what it wrote to stdout; raises as above."""
    jars = classpath("tools")
    archive = ClassArchive(jars[0].parent, jars)
    command = java_command(
        jars,
        tool,
        *("--bootstrap-server", bootstrap, *arguments),
        jvm=(*_JVM, *archive.options(write=True), *jvm),
    )
    answer = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    archive.adopt()
    assert answer.returncode == 0, answer
    return answer.stdout


@contextmanager
def java_source(program: str, *arguments: str, bundle: str = "mirror") -> Iterator[list[str]]:
    """The command that runs one of them; good until the context ends, or the program has begun."""
    jars = os.pathsep.join(map(str, classpath(bundle)))
    with as_file(files("kit") / "java" / f"{program}.java") as source:
        yield [str(java_binary()), *JVM, "-cp", jars, str(source), *arguments]


def ask_mirror_client(bootstrap: str, *questions: str) -> dict[str, str]:
    """The answers of ``MirrorClient`` on a cluster, as Java prints them.

    Args:
        bootstrap: The cluster.
        questions: ``upstreams``, ``heartbeats``, ``checkpoints``, ``remote`` (topics), ``hops:ALIAS``,
            ``offsets:ALIAS:GROUP``.

    Raises:
        subprocess.CalledProcessError: The library failed; its words are in ``stderr``.
    """
    return _printed("MirrorClientProbe", bootstrap, *questions)


def mirror_defaults() -> dict[str, str]:
    """The default of every setting of MM2's connectors, as its jar has them.

    Raises:
        subprocess.CalledProcessError: Java failed; its words are in ``stderr``.
    """
    return _printed("MirrorDefaults")


def _printed(program: str, *arguments: str) -> dict[str, str]:
    with java_source(program, *arguments) as command:
        ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    return dict(line.split("=", 1) for line in ran.stdout.splitlines() if "=" in line)
