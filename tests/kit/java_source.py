"""Small Java programs beside the tests, run on Kafka's own client libraries as they are."""

from __future__ import annotations

import os
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from mmtool.java import java_binary
from mmtool.lab.artifacts import classpath
from mmtool.lab.cluster import JVM

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def java_source(program: str, *arguments: str, bundle: str = "mirror") -> Iterator[list[str]]:
    """The command that runs one of them; good until the context ends, or the program has begun."""
    jars = os.pathsep.join(map(str, classpath(bundle)))
    with as_file(files("kit") / "java" / f"{program}.java") as source:
        yield [str(java_binary()), *JVM, "-cp", jars, str(source), *arguments]
