"""Offsets of mirrored records, translated from one cluster to the other: the public Python API.

The names in ``__all__`` are public, with the members that they document: they change as commands and options do. All
else in mmtool is private, also the modules of this package. docs/reference/python-api.md lists the public names;
docs/how-to/translate-offsets-in-spark.md shows them in a Spark job.

The package is the algebra of offsets: runs, translation, naming, MirrorMaker 2's records. It does no IO and reads no
clock. `load_offset_map` and `translate_offsets_udf`, which do, are elsewhere and loaded on demand, as all names are:
importing this package loads none of its modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if __name__ != "mmtool.translation":
    raise ImportError(
        "import mmtool.translation, not translation: the bare name would load a second copy of every class"
    )

if TYPE_CHECKING:
    from mmtool.errors import MmtoolError
    from mmtool.insight.offset_map import load_offset_map, translate_offsets_udf
    from mmtool.translation.answers import Answer, Bounded, Exact, Reason, Refused
    from mmtool.translation.columns import Answers
    from mmtool.translation.offset_map import OffsetMap
    from mmtool.translation.types import TopicPartition

__all__ = [
    "Answer",
    "Answers",
    "Bounded",
    "Exact",
    "MmtoolError",
    "OffsetMap",
    "Reason",
    "Refused",
    "TopicPartition",
    "load_offset_map",
    "translate_offsets_udf",
]

_HOMES = {
    "Answer": "mmtool.translation.answers",
    "Answers": "mmtool.translation.columns",
    "Bounded": "mmtool.translation.answers",
    "Exact": "mmtool.translation.answers",
    "MmtoolError": "mmtool.errors",
    "OffsetMap": "mmtool.translation.offset_map",
    "Reason": "mmtool.translation.answers",
    "Refused": "mmtool.translation.answers",
    "TopicPartition": "mmtool.translation.types",
    "load_offset_map": "mmtool.insight.offset_map",
    "translate_offsets_udf": "mmtool.insight.offset_map",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
