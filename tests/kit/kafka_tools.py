"""Kafka's own command-line tools and classes: run as an operator runs them, or called by small Java programs beside."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from mmtool.java import ClassArchive, java_binary
from mmtool.lab.artifacts import classpath
from mmtool.lab.cluster import JVM
from mmtool.lab.process import java_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

_TOOLS = {
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-share-groups.sh": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-configs.sh": "org.apache.kafka.tools.ConfigCommand",
}
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


def blocks_of(runbook: str) -> dict[str, str]:
    """The commands of a runbook, by the name of their step."""
    pattern = r"^### \d+\. (\w+)\n(?:(?!###).)*?```sh\n(.*?)```"
    return dict(re.findall(pattern, runbook, re.MULTILINE | re.DOTALL))


def shell_of(folder: Path, aliases: Sequence[str] = ("source", "target")) -> Callable[[str], str]:
    """Runs a block of a runbook as a person does: in a shell, with Kafka's tools in PATH and files to log in by.

    The function returns what was written to stdout; it raises AssertionError if a command failed.
    """
    for name, main in _TOOLS.items():
        command = java_command(classpath("tools"), main, jvm=_JVM)
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        (folder / name).chmod(0o755)
    for alias in aliases:
        (folder / f"{alias}.properties").touch()

    def run(block: str) -> str:
        path = f"{folder}{os.pathsep}{os.environ['PATH']}"
        answer = subprocess.run(
            ["sh", "-e"], input=block, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True,
            text=True, timeout=120, check=False,
        )  # fmt: skip
        assert answer.returncode == 0, answer.stderr
        return answer.stdout

    return run


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
