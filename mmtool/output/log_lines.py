"""Write messages to stderr as one JSON object per line: ``--log-format json``."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from mmtool.output.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from mmtool.events import Notice

FIRST = ("timestamp", "level", "event", "message", "command")
"""The fields that start every line, in this order; the event's own fields follow."""


def log_line(
    level: str, message: str, notice: Notice, bound: Mapping[str, object], replaced: Mapping[str, str]
) -> str:
    """An event as one line of JSON, in ASCII and with its line feed.

    Args:
        level: ``info``, ``debug``, ``warning`` or ``error``.
        message: The sentence as people read it.
        notice: The event and its fields, whose names are not changed.
        bound: Fields of every line of this process; the event's own win.
        replaced: What fields show in place of a word. It is replaced before the line is put together, which stays JSON.
    """
    render = _logger()
    told = {**bound, **notice.fields}
    values = {
        name: hidden(value, replaced)
        for name, value in told.items()
        if name not in FIRST or name == "command"
    }
    line: str = render(level, str(notice.event), message=message, **values)
    return f"{line}\n"


def hidden(value: object, replaced: Mapping[str, str]) -> object:
    """A field's value with secrets hidden, converted to JSON's own types."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return round(value, 3) if abs(value) < float("inf") else None
    if isinstance(value, Mapping):
        return {str(name): hidden(item, replaced) for name, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [hidden(item, replaced) for item in value]
    return redacted(str(value), replaced)


@cache
def _logger() -> Callable[..., Any]:
    """A function that renders an event by structlog's processors, and returns the line for mmtool's own stream."""
    import structlog

    chain: list[Any] = [
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _with_level,
        _in_order,
        structlog.processors.JSONRenderer(),
    ]
    logger = structlog.wrap_logger(
        structlog.ReturnLogger(), processors=chain, wrapper_class=structlog.BoundLogger
    )
    return lambda level, event, **values: getattr(logger, level)(event, **values)


def _with_level(_: Any, level: str, values: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {**values, "level": level}


def _in_order(_: Any, __: str, values: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {name: values[name] for name in FIRST if name in values} | dict(values)
