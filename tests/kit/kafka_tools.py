"""Kafka's own command-line tools, run as an operator runs them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from mmtool.java import ClassArchive
from mmtool.lab.artifacts import classpath
from mmtool.lab.process import java_command

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SECONDS = 60
_JVM = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")


def consumer_groups(bootstrap: str, *arguments: str) -> str:
    """``kafka-consumer-groups --bootstrap-server BOOTSTRAP ARGUMENTS``: what it wrote to stdout.

    Raises:
        AssertionError: It failed.
    """
    return _run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", bootstrap, *arguments)


def list_topics(bootstrap: str, config: Path, jvm: Sequence[str] = ()) -> list[str]:
    """``kafka-topics --list`` with a file of client properties; raises as above."""
    words = ("--command-config", str(config), "--list")
    return _run("org.apache.kafka.tools.TopicCommand", bootstrap, *words, jvm=jvm).split()


def join_share_group(bootstrap: str, group: str, topic: str) -> None:
    """``kafka-console-share-consumer`` for a moment: the group is there afterwards (KIP-932); raises as above."""
    wanted = ("--group", group, "--topic", topic, "--timeout-ms", "1000")
    _run("org.apache.kafka.tools.consumer.ConsoleShareConsumer", bootstrap, *wanted)


def _run(tool: str, bootstrap: str, *arguments: str, jvm: Sequence[str] = ()) -> str:
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
