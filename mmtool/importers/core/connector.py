"""MirrorMaker 2's connectors as settings, each with the place that it comes from, and what is said about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from mmtool.plain_text import shell_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE_ALIAS, TARGET_ALIAS = "source.cluster.alias", "target.cluster.alias"


class ConnectorKind(StrEnum):
    """MirrorMaker 2's connectors, by the simple names of their classes."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"


class NoteKind(StrEnum):
    """Kinds of notes about an import, in the order in which they are shown."""

    ATTENTION = "attention"
    DIFFERS = "differs"
    SECRET = "secret"  # noqa: S105  a kind of note
    LEFT_OUT = "left_out"


@dataclass(frozen=True, slots=True)
class Note:
    """One sentence about a setting; it never contains a secret.

    Attributes:
        kind: What happened to the setting.
        path: Where it is in the input, or which secret.
        message: The reason, or what to do.
    """

    kind: NoteKind
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Setting:
    """One value of the input.

    Attributes:
        value: As MirrorMaker 2 gets it; may be a secret.
        path: Where it is in the input.
    """

    value: str = field(repr=False)
    path: str


def with_other(kind: str, names: Sequence[str], other: str) -> str:
    """The command that imports one more file, for a remedy; ``kind`` is ``--strimzi`` or ``--connect``."""
    return f"`{shell_line(('mmtool', 'config', 'import', '-c', 'FILE', kind, *names, other))}`"


def overlaid(low: dict[str, Setting], high: dict[str, Setting], notes: list[Note]) -> dict[str, Setting]:
    """Two layers of settings as one; a value that the higher layer changes is noted."""
    notes.extend(
        Note(NoteKind.LEFT_OUT, low[key].path, f"{high[key].path} sets {key} as well, and wins")
        for key in low
        if key in high and low[key].value != high[key].value
    )
    return low | high


@dataclass(frozen=True, slots=True)
class Connector:
    """One connector.

    Attributes:
        kind: Its class.
        origin: The connector's name, for messages.
        config: Its settings, as Kafka Connect gets them.
    """

    kind: ConnectorKind
    origin: str
    config: Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class WorkerName:
    """The name of the group or of the offsets topic of Connect's workers.

    Attributes:
        alias: Of the cluster that has it.
        key: In Connect's configuration.
        setting: The name.
    """

    alias: str
    key: str
    setting: Setting


@dataclass(frozen=True, slots=True)
class Deployment:
    """What an input holds.

    Attributes:
        connectors: MirrorMaker 2's, in the input's order.
        workers: Names by which mmtool finds a running MirrorMaker 2.
        notes: What the input holds beside.
    """

    connectors: tuple[Connector, ...]
    workers: tuple[WorkerName, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def has_flow(self) -> bool:
        """Whether a connector mirrors records."""
        return any(connector.kind is ConnectorKind.SOURCE for connector in self.connectors)
