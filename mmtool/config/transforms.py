"""Read a flow's transforms: MirrorMaker 2's ``transforms`` and ``predicates``, and ``mmtool.transform``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, NoReturn, Protocol

from mmtool.config.javaregex import PatternRefusedError, compile_java
from mmtool.config.names import NameFilter
from mmtool.config.properties import PropertyEntry
from mmtool.config.redaction import RawProperties
from mmtool.config.report import Report
from mmtool.config.scopes import Properties, Scopes, stripped
from mmtool.config.settings import ClusterSettings, Transforms
from mmtool.config.values import parse_list
from mmtool.plain_text import marks_secret
from mmtool.plan.flow.transforms import Condition, On, Step

FUNCTION: Final = "mmtool.transform"
_PACKAGE = "org.apache.kafka.connect.transforms."
_PREDICATES: Mapping[str, tuple[On, str]] = {
    "TopicNameMatches": (On.TOPIC, "pattern"),
    "HasHeaderKey": (On.HEADER, "name"),
    "RecordIsTombstone": (On.TOMBSTONE, ""),
}
"""Kafka Connect's predicates, with the setting that each one has."""

_BY_SCHEMA = (
    "it needs records with a schema, and fails on the bytes that MirrorMaker 2 mirrors, too: remove it, or write a"
    f" Python function and name it with {FUNCTION}"
)
_OF_NAMES = (
    "it changes the names of topics, which mmtool takes from mmtool.topic.rename.format: remove it, and set"
    " that key"
)
_REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            *("Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField"),
            *("ReplaceField", "SetSchemaMetadata", "TimestampConverter", "ValueToKey"),
        ),
        _BY_SCHEMA,
    ),
    "InsertHeader": (
        "MirrorMaker 2's header converter takes bytes only, so that it fails there, too: remove it, or write a Python"
        f" function and name it with {FUNCTION}"
    ),
    "RegexRouter": _OF_NAMES,
    "TimestampRouter": _OF_NAMES,
}
_KEEPS = ("mmtool.transforms:mask_json", "mmtool.transforms:hash_json")
"""Functions that leave a record out only where ``mmtool.transform.on.error`` says so."""
_SETTINGS: Mapping[str, tuple[str, ...]] = {"Filter": (), "DropHeaders": ("headers",)}
"""The transforms that mmtool runs, with the settings that each one has."""
_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


class Flow(Protocol):
    """The reader of a flow's keys."""

    @property
    def scopes(self) -> Scopes: ...
    @property
    def report(self) -> Report: ...
    @property
    def source(self) -> ClusterSettings: ...
    @property
    def target(self) -> ClusterSettings: ...

    def find(self, name: str) -> PropertyEntry | None:
        """The entry that sets a key, by scope."""

    def is_enabled(self) -> bool:
        """Whether the file enables the flow."""


def read_transforms(
    flow: Flow, topics: NameFilter, on_error: Literal["halt", "drop", "copy"], offsets: str, mirror: str
) -> Transforms:
    """The flow's transforms; faults are reported, and their transforms left out.

    Args:
        flow: Its keys.
        topics: What ``mmtool.transform.topics`` selects.
        on_error: ``mmtool.transform.on.error``.
        offsets: ``mmtool.offsets``.
        mirror: ``mmtool.mirror``.
    """
    entry, function = flow.find(FUNCTION), ""
    if entry is not None and (function := entry.value.strip()) and not _REFERENCE.fullmatch(function):
        flow.report.expected(entry, "package.module:function, as mmtool.transforms:mask_json")
        function = ""
    free = flow.scopes.own_by_prefix(flow.source.alias, flow.target.alias, f"{FUNCTION}.")
    settings = {name: one for name, one in free.items() if name not in ("topics", "on.error")}
    lonely = next(iter(free.values()), None)
    if lonely is not None and entry is None and flow.is_enabled():
        flow.report.refused(
            lonely,
            f"{flow.source.alias}->{flow.target.alias} has no {FUNCTION}, which names the function that it is for:"
            " records would be copied as they are",
        )
    steps = _steps(flow)
    if mirror == "external" and (entry is not None or steps):
        named = entry or flow.find("mmtool.mirror")
        assert named is not None
        flow.report.warn(
            named, "has no effect with mmtool.mirror = external: another system copies the records"
        )
        function, steps = "", ()
    may_drop = function and (function not in _KEEPS or on_error == "drop")
    if offsets == "same" and (may_drop or any(step.headers is None for step in steps)):
        named = entry or flow.find("mmtool.offsets")
        assert named is not None
        flow.report.warn(
            named,
            "may leave records out, and with mmtool.offsets = same mmtool writes a marker for each of them and waits"
            " for it: at most 3,000 to 8,000 in a second into one partition",
        )
    if steps:
        flow.report.note(
            f"transforms change records of mirrored topics only; in MirrorMaker 2 they also reach its checkpoints and"
            f" heartbeats ({flow.source.alias}->{flow.target.alias})",
            usual=True,
            keys=["transforms"],
        )
    is_public = {name: not (one.has_placeholder or marks_secret(name)) for name, one in settings.items()}
    return Transforms(
        steps=steps,
        function=function,
        topics=topics,
        settings=RawProperties({name: one.value for name, one in settings.items()}),
        public={name: one.value for name, one in sorted(settings.items()) if is_public[name]},
        on_error=on_error,
        folder=str(Path(flow.report.path).absolute().parent),
    )


def _steps(flow: Flow) -> tuple[Step, ...]:
    """The transforms of MirrorMaker 2 that drop records or headers, in their order."""
    # without the flow's prefix they are of the connectors that MirrorMaker 2 runs
    entry = flow.scopes.of_flow(
        flow.source.alias, flow.target.alias, "transforms", flow_only=not flow.is_enabled()
    )
    found = []
    for name in () if entry is None else parse_list(entry.value):
        assert entry is not None
        with suppress(_Refused):
            found.append(_step(flow, name, _keys(flow, f"transforms.{name}."), entry))
    return tuple(found)


def _keys(flow: Flow, prefix: str) -> Properties:
    """The keys of one transform or predicate: those of the flow; those without its prefix MirrorMaker 2 drops."""
    pair = f"{flow.source.alias}->{flow.target.alias}."
    every = stripped(flow.scopes.entries, prefix)
    own = stripped(flow.scopes.entries, pair + prefix)
    for name, entry in every.items():
        if name not in own:
            flow.report.warn(
                entry,
                f"MirrorMaker 2 drops this key without the prefix of a flow, and then does not start; mmtool uses it:"
                f" write `{pair}{entry.key}`",
            )
    return {**every, **own}


class _Refused(Exception):  # noqa: N818  no fault of mmtool's
    """A transform has a fault, which is reported."""


def _refuse(flow: Flow, entry: PropertyEntry, why: str) -> NoReturn:
    flow.report.refused(entry, why)
    raise _Refused


def _check_known(flow: Flow, keys: Properties, *known: str) -> None:
    """Refuse settings that a class does not have: Kafka Connect ignores them, and leaves other records out."""
    for name, entry in keys.items():
        if name not in known:
            _refuse(flow, entry, f"is no setting of this class; it has {', '.join(known)}")


def _class_of(flow: Flow, keys: Properties, named: PropertyEntry, what: str, package: str) -> str:
    """The class that a transform or predicate names, without its package."""
    if "type" not in keys:
        _refuse(flow, named, f"{what}.type is missing: name its class")
    return keys["type"].value.strip().removeprefix(package)


def _step(flow: Flow, name: str, keys: Properties, named: PropertyEntry) -> Step:
    """The transform of a name; raises `_Refused`."""
    of = _class_of(flow, keys, named, f"transforms.{name}", _PACKAGE)
    of = of.removesuffix("$Value").removesuffix("$Key")
    if of not in _SETTINGS:
        why = _REFUSED.get(of) or (
            f"mmtool runs no Java class but Filter and DropHeaders: write a Python function and name it with {FUNCTION}"
        )
        _refuse(flow, keys["type"], f"{of}: {why}")
    _check_known(flow, keys, "type", "predicate", "negate", *_SETTINGS[of])
    condition = _condition(flow, keys)
    if of == "Filter":
        return Step(None, condition)
    headers = parse_list(keys["headers"].value) if "headers" in keys else ()
    if not headers:
        _refuse(flow, keys["type"], f"transforms.{name}.headers is missing: list the headers to drop")
    return Step(headers, condition)


def _condition(flow: Flow, keys: Properties) -> Condition | None:
    """The condition of a transform; raises `_Refused`."""
    named = keys.get("predicate")
    if named is None:
        return None
    negate = keys["negate"].value.strip().lower() if "negate" in keys else "false"
    if negate not in ("true", "false"):
        flow.report.expected(keys["negate"], "true or false")
        raise _Refused
    what = f"predicates.{named.value.strip()}"
    own = _keys(flow, f"{what}.")
    of = _class_of(flow, own, named, what, f"{_PACKAGE}predicates.")
    if of not in _PREDICATES:
        _refuse(flow, own["type"], f"{of}: mmtool knows the predicates {', '.join(_PREDICATES)}")
    on, setting = _PREDICATES[of]
    _check_known(flow, own, *filter(None, ("type", setting)))
    text = own[setting].value if setting in own else ""
    if setting and not text:
        _refuse(flow, own["type"], f"{what}.{setting} is missing")
    try:
        if on is On.TOPIC:
            compile_java(text)
    except PatternRefusedError as error:
        flow.report.expected(own[setting], f"a Java regular expression; in `{error.pattern}`, {error.reason}")
        raise _Refused from error
    return Condition(on, text, negate == "true")
