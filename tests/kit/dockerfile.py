"""The Dockerfile of ``deploy/docker`` as data: its stages, and what each of their instructions says."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from dockerfile_parse import DockerfileParser

if TYPE_CHECKING:
    from pathlib import Path

_MOUNT = re.compile(r"--mount=\S+\s+")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a stage.

    Attributes:
        name: In capitals, such as ``RUN``.
        value: The rest, on one line.
        options: Such as ``--mount=...``, which the value is without.
    """

    name: str
    value: str
    options: tuple[str, ...]


def stages(path: Path) -> list[list[Instruction]]:
    """The instructions of each stage; what is above the first ``FROM`` belongs to none."""
    parser = DockerfileParser(fileobj=BytesIO(path.read_bytes()))
    found: list[list[Instruction]] = []
    for one in parser.structure:
        if one["instruction"] == "FROM":
            found.append([])
        if found and one["instruction"] != "COMMENT":
            options = tuple(word.strip() for word in _MOUNT.findall(one["value"]))
            found[-1].append(Instruction(one["instruction"], _MOUNT.sub("", one["value"]), options))
    return found


def values(stage: list[Instruction], name: str) -> list[str]:
    """What a stage says with one instruction, in order."""
    return [one.value for one in stage if one.name == name]
