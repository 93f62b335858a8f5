"""Small Java programs beside the tests, run on Kafka's own client libraries as they are."""

from __future__ import annotations

import os
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

from mmtool.java import java_binary
from mmtool.lab.artifacts import mirror_classpath

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@contextmanager
def java_source(
    program: str, *arguments: str, classpath: Callable[[], list[Path]] = mirror_classpath
) -> Iterator[list[str]]:
    """The command that runs one of them; good until the context ends, or the program has begun."""
    jars = os.pathsep.join(map(str, classpath()))
    with as_file(files("kit") / "java" / f"{program}.java") as source:
        yield [str(java_binary()), "-Xmx96m", "-cp", jars, str(source), *arguments]
