"""The keys of a flow, rows of ``keys.toml``: type, default, meaning, and what a running flow does when one changes.

`flows.py` reads each key into its field of `settings.py`, `changes.py` compares a running flow with a changed file, and
messages, `config show`, the file of `mmtool init` and docs/reference/config.md take names and meanings from here.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

Kind = Literal["boolean", "integer", "interval", "replicas", "list", "text", "choice", "start", "class"]
Applies = Literal["background", "workers", "driver", "next start", "first start", "commands"]
"""Who takes over a changed value, and when.

At once: the ``background`` tasks of a running flow, which start again with it; the ``workers``, with the next round; or
the ``driver``, which reads it each time. Otherwise the flow's ``next start``, or only its ``first start``, or the
``commands`` beside `mmtool replicate`, whenever they run.
"""

LARGEST_LONG = 2**63 - 1
LARGEST_INT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a flow.

    Attributes:
        name: As in the file, without scope.
        kind: How its text is read.
        meaning: One line for the reference page.
        default: The text that stands for an absent key; None for "not set".
        mm2: MM2's default where it differs; None when it is the same, or the key is mmtool's own.
        choices: For ``choice``, in lower case; the first one is the default.
        minimum: For ``integer``.
        maximum: For ``integer``.
        least_taken: For ``integer``: what MM2 accepts below the minimum, and mmtool raises to it; None: nothing.
        largest_taken: For ``integer`` and ``interval``: what MM2 accepts above the maximum, likewise.
        flow_only: MM2 silently ignores it in the global scope.
        applies: Who takes over a changed value.
        field_name: The field of ``FlowSettings`` where it has another name than the key; several keys may make one.
    """

    name: str
    kind: Kind
    meaning: str
    default: str | None = None
    mm2: str | None = None
    choices: Sequence[str] = ()
    minimum: int = 0
    maximum: int = LARGEST_LONG
    least_taken: int | None = None
    largest_taken: int | None = None
    flow_only: bool = False
    applies: Applies = "background"
    field_name: str = ""

    @property
    def field(self) -> str:
        """The field of ``FlowSettings`` that the key sets: its name without ``mmtool.``, ``.enabled``, ``.exclude``."""
        plain = self.name.removeprefix("mmtool.").removesuffix(".enabled").removesuffix(".exclude")
        return self.field_name or re.sub("[.-]", "_", plain)

    @property
    def taken(self) -> tuple[int, int]:
        """The smallest and the largest number that is accepted, if only with a warning."""
        least = self.minimum if self.least_taken is None else self.least_taken
        return least, self.maximum if self.largest_taken is None else self.largest_taken

    @property
    def is_own(self) -> bool:
        """Whether the key is mmtool's, and so may also be set under ``ALIAS.``."""
        return self.name.startswith("mmtool.")


_INTERVAL: dict[str, Any] = {"minimum": 1, "maximum": LARGEST_INT, "largest_taken": LARGEST_LONG // 1000}
"""Bounds of the kind ``interval`` in seconds; MM2 counts milliseconds."""
TABLES = tomllib.loads(files("mmtool.config").joinpath("keys.toml").read_text(encoding="utf-8"))
"""What ``keys.toml`` says, by section."""
FLOW_KEYS = {
    name: Key(name, **(_INTERVAL if row["kind"] == "interval" else {}), **row)
    for name, row in TABLES["flow"].items()
}

BLACKLISTS = {f"{name}.blacklist": f"{name}.exclude" for name in ("topics", "groups", "config.properties")}
"""Names of the excludes up to Kafka 3.9, with today's names; their patterns are excluded as well."""

OWN_PREFIXES = {
    "mmtool.spark.conf.": "Any Spark property, for example `mmtool.spark.conf.spark.executor.memory`.",
    "mmtool.transform.": "Setting of the function of `mmtool.transform`, for example `mmtool.transform.paths`.",
    "mmtool.hook.": "Executable that runs at the end of a failover step: `mmtool.hook.hand_over` for `hand_over`.",
}
"""mmtool's keys with a free last part, in all three scopes, with their meanings."""

UNIT_PREFIX = "mmtool.unit."
"""``mmtool.unit.NAME.topics`` and ``.groups``: what ``--unit NAME`` selects. Global, or under ``S->T.``."""

CLUSTER_ID = "mmtool.cluster.id"
"""Under ``ALIAS.`` only: the cluster id that this alias must answer with."""
