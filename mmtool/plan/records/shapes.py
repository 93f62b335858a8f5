"""Check JSON values against the annotations of a dataclass or named tuple, before one is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from types import UnionType
from typing import Any, ClassVar, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_INT64 = 1 << 63


def misfit(cls: type, values: Mapping[str, Any]) -> str | None:
    """The first of these fields whose value is not of its annotated type; None where all are."""
    hints = _hints(cls)
    return next(
        (name for name, value in values.items() if name in hints and not fits(value, hints[name])), None
    )


def made(cls: Callable[..., T], *values: Any) -> T:
    """An object of a class from the values of its first fields.

    Raises:
        TypeError: A value is not of its field's annotated type, or there are too many or too few.
    """
    _checked(cls, dict(zip(_hints(cls), values, strict=False)))
    return cls(*values)


def made_of(cls: Callable[..., T], values: Mapping[str, Any]) -> T:
    """An object of a class from a JSON object with its fields.

    Raises:
        TypeError, AttributeError: It is no such object, or a value is not of its field's annotated type.
    """
    return cls(**_checked(cls, values))


def shaped(value: Any, kind: Any) -> Any:
    """A JSON value as a value of an annotated type: with tuples for lists, and without the keys that it does not have.

    Raises:
        TypeError: The value is not of that type.
    """
    origin, inner = get_origin(kind), get_args(kind)
    required: frozenset[str] | None = getattr(kind, "__required_keys__", None)  # a typed dict has it
    if required is not None and isinstance(value, dict) and required <= value.keys():
        return {name: shaped(value[name], of) for name, of in _hints(kind).items() if name in value}
    if origin is dict and isinstance(value, dict):
        return {name: shaped(one, inner[1]) for name, one in value.items()}
    if origin is list and isinstance(value, list):
        return [shaped(one, inner[0]) for one in value]
    if not fits(value, kind):
        raise TypeError(f"{value!r} has another type")
    return tuple(value) if origin is tuple else value


def _checked(cls: Callable[..., Any], values: Mapping[str, Any]) -> Mapping[str, Any]:
    assert isinstance(cls, type)
    name = misfit(cls, values)
    if name is not None:
        raise TypeError(f"the field {name} has another type")
    return values


def fits(value: Any, kind: Any) -> bool:
    """Whether a JSON value is of an annotated type: a list may be a tuple, a bool is no int, an int has 64 bits."""
    if type(value) is kind:
        return kind is not int or -_INT64 <= value < _INT64
    if get_origin(kind) is not None:
        return _fits_generic(value, get_origin(kind), get_args(kind))
    if hasattr(kind, "__supertype__"):
        return fits(value, kind.__supertype__)
    if kind is float:
        return type(value) is int
    return kind is Any or (isinstance(kind, type) and issubclass(kind, StrEnum) and isinstance(value, str))


def _fits_generic(value: Any, origin: Any, inner: tuple[Any, ...]) -> bool:
    if origin is dict:
        return isinstance(value, dict) and all(fits(one, inner[1]) for one in value.values())
    if origin is tuple:
        return isinstance(value, list | tuple) and _each_fits(value, inner)
    return origin in (Union, UnionType) and any(fits(value, one) for one in inner)


def _each_fits(values: Sequence[Any], kinds: tuple[Any, ...]) -> bool:
    if kinds[-1] is Ellipsis:
        return all(fits(value, kinds[0]) for value in values)
    return len(values) == len(kinds) and all(map(fits, values, kinds))


@cache
def _hints(cls: type) -> dict[str, Any]:
    return {name: kind for name, kind in get_type_hints(cls).items() if get_origin(kind) is not ClassVar}
