"""Replace values in JSON text by their paths; every other character of the text stays as it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from json import JSONDecoder
from json.decoder import scanstring  # type: ignore[attr-defined]  # typeshed does not know it
from typing import Final, NoReturn, TypeAlias

import orjson

ANY: Final = 0
"""The step of a path into each element of an array; keys of objects are texts."""

Tree: TypeAlias = "dict[str | int, Tree | None]"
"""Paths by their steps; None is the end of a path."""

_WS = r"[ \t\n\r]*+"
_TEXT = r'"[^"\\\x00-\x1f]*+"'
_NUMBER = r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?"
_SCALAR = rf"(?:{_TEXT}|{_NUMBER}|true|false|null)"
_MEMBER = re.compile(rf"{_TEXT[:1]}({_TEXT[1:-1]}){_TEXT[-1:]}{_WS}:{_WS}")
_NEXT = re.compile(rf"{_WS}(?:,{_WS}|([}}\]]))")
_VALUE = re.compile(rf"{_WS}:{_WS}({_SCALAR})".encode())
_STEP = re.compile(r'\.?(?:"((?:[^"\\]|\\.)*)"|([^.\[\]"\s]+))|(\[\*\])')
_SPACE = " \t\n\r"


class NotJsonError(ValueError):
    """A value is not UTF-8 text with one JSON document (RFC 8259)."""


def parse_paths(paths: Iterable[str]) -> Tree:
    """Parse paths such as ``customer.email``, ``items[*].card`` and ``"a.b".c``.

    Raises:
        ValueError: A path is no such path; names it.
    """
    tree: Tree = {}
    for path in paths:
        steps = list(_STEP.finditer(path))
        if not steps or "".join(step[0] for step in steps) != path or path.startswith((".", "$")):
            raise ValueError(f"{path} is no path: write it as customer.email or items[*].card")
        inside: Tree | None = tree
        for step in steps[:-1]:
            if inside is not None:
                inside = inside.setdefault(_key(step), {})
        if inside is not None:  # a shorter path replaces the whole value already
            inside[_key(steps[-1])] = None
    return tree


def _key(step: re.Match[str]) -> str | int:
    if step[3]:
        return ANY
    return step[2] if step[1] is None else re.sub(r"\\(.)", r"\1", step[1])


class _Node:
    """The steps from one place of a document on.

    Attributes:
        inside: By key, or `ANY`; None is a value to replace.
        others: Matches as many members of an object as possible that no step leads to, without escapes and with plain
            values: one call instead of one for each of them.
        opens: The brackets of the values that a step leads into.
    """

    __slots__ = ("inside", "opens", "others")

    def __init__(self, tree: Tree) -> None:
        keys = [re.escape(key) for key in tree if isinstance(key, str)]
        self.inside = {key: None if steps is None else _Node(steps) for key, steps in tree.items()}
        self.opens = "{" * bool(keys) + "[" * (ANY in tree)
        key = rf'(?!"(?:{"|".join(keys)})"){_TEXT}'
        self.others = re.compile(rf"(?:{key}{_WS}:{_WS}{_SCALAR}{_WS},{_WS})*+")


class JsonRewriter:
    """Replaces the values at paths.

    A. Text outside the values is kept byte for byte, with its spaces, numbers and repeated keys.
    B. A repeated key is replaced each time.

    Args:
        paths: As `parse_paths` returns them.
        replace: Makes a value's JSON text from the present one; null is not given to it, and stays.
    """

    def __init__(self, paths: Tree, replace: Callable[[str], str]) -> None:
        self._root = _Node(paths)
        self._replace = replace
        self._plain: list[tuple[tuple[str, ...], bytes]] = []
        with suppress(TypeError):  # each value is read whole then
            self._plain = list(_plain_paths(paths, ()))
        # numbers stay text: Python limits the digits that it converts
        decoder = JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse)
        self._scan: Callable[[str, int], tuple[object, int]] = decoder.scan_once  # type: ignore[attr-defined]

    def rewrite(self, value: bytes) -> bytes:
        """The value with replaced parts; the same object where no path leads to one.

        Raises:
            NotJsonError: It is no JSON.
        """
        quick = self._spans_of(value)
        if quick is not None:
            return self._with_replaced(value, quick)
        spans: list[tuple[int, int]] = []
        try:
            text = value.decode()
            end = _skip(text, self._walk(text, _skip(text, 0), self._root, spans))
        except (ValueError, IndexError, StopIteration, RecursionError):
            raise NotJsonError from None  # the cause may quote the value
        if end != len(text):
            raise NotJsonError
        if not spans:
            return value
        parts: list[str] = []
        at = 0
        for start, stop in spans:
            parts += (text[at:start], self._replace(text[start:stop]))
            at = stop
        return "".join((*parts, text[at:])).encode()

    def _spans_of(self, value: bytes) -> list[tuple[int, int]] | None:
        """The spans to replace in a value where they are plain to see; None where its text has to be read.

        A key that occurs once in a text without escapes is the one at its path, if there is one there.
        """
        if b"\\" in value or not self._plain:
            return None
        try:
            document = orjson.loads(value)
        except orjson.JSONDecodeError:
            return None
        spans = []
        for keys, token in self._plain:
            inside: object = document
            for key in keys:
                inside = inside.get(key) if isinstance(inside, dict) else None
            at = value.find(token)
            if inside is None and at < 0:
                continue
            again = value.find(token, at + 1) >= 0
            found = None if again else _VALUE.match(value, at + len(token))
            if inside is None or found is None:
                return None
            spans.append(found.span(1))
        return sorted(spans)

    def _with_replaced(self, value: bytes, spans: list[tuple[int, int]]) -> bytes:
        for start, stop in reversed(spans):
            value = b"".join(
                (value[:start], self._replace(value[start:stop].decode()).encode(), value[stop:])
            )
        return value

    def _walk(self, text: str, at: int, node: _Node | None, spans: list[tuple[int, int]]) -> int:
        """The index behind the value at an index; ``spans`` gets those to replace."""
        begin = text[at]
        if node is None or begin not in node.opens:
            value, end = self._scan(text, at)
            if node is None and value is not None:
                spans.append((at, end))
            return end
        is_object, close = begin == "{", "}" if begin == "{" else "]"
        at = _skip(text, at + 1)
        if text[at] == close:
            return at + 1
        while True:
            key: str | int = ANY
            if is_object:
                at = node.others.match(text, at).end()  # type: ignore[union-attr]  # it matches nothing, too
                key, at = _key_at(text, at)
            if key in node.inside:
                at = self._walk(text, at, node.inside[key], spans)
            else:
                _, at = self._scan(text, at)
            found = _NEXT.match(text, at)
            if found is None:
                raise ValueError
            at = found.end()
            if found[1]:
                if found[1] != close:
                    raise ValueError
                return at


def _plain_paths(tree: Tree, before: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bytes]]:
    """The paths, each with its last key as it is in a text.

    Raises:
        TypeError: One leads into an array.
    """
    for key, inside in tree.items():
        if not isinstance(key, str):
            raise TypeError
        if inside is None:
            yield (*before, key), orjson.dumps(key)
        else:
            yield from _plain_paths(inside, (*before, key))


def _key_at(text: str, at: int) -> tuple[str, int]:
    """The key of the member at an index, and the index of its value."""
    found = _MEMBER.match(text, at)
    if found is not None:
        return found[1], found.end()
    if text[at] != '"':
        raise ValueError
    key, at = scanstring(text, at + 1, True)
    at = _skip(text, at)
    if text[at] != ":":
        raise ValueError
    return key, _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    """The index of the next character that is no space."""
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at


def _refuse(_: str) -> NoReturn:
    raise ValueError
