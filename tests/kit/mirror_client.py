"""MirrorMaker 2's own classes, called from its jars: the judge of what is written for it."""

from __future__ import annotations

import subprocess

from kit.java_source import java_source


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
