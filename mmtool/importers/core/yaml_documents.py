"""Read YAML documents as Kubernetes does, with every value as the text in the file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import yaml

from mmtool.errors import UsageError
from mmtool.importers.core.connect import Setting

_MOST_NODES = 100_000
"""Nodes of one file, aliases counted as often as they are used: a few lines of aliases can stand for billions."""
_MOST_NESTED = 100
"""Lists and mappings in each other, written with brackets. PyYAML visits all of them at every character."""
_BOOLEANS = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
_TAG = "tag:yaml.org,2002:"
_TEXTS = {"str", "int", "float", "timestamp", "value", "binary"}
_MERGE = f"{_TAG}merge"


def yaml_documents(name: str, text: str) -> list[object]:
    """The documents of a YAML text: mappings, lists, texts and None.

    Numbers and dates are the texts that the file has; booleans are ``true`` and ``false``.

    Args:
        name: Of the file, for errors.
        text: The file's content.

    Raises:
        UsageError: It is no YAML, has a key twice or a tag of its own, is nested too deeply, or too large.
    """
    remedy = "correct the file"
    try:
        return list(_Reader(name).documents(text))
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f":{error.problem_mark.line + 1}"
        raise UsageError(
            f"{name}{line}: not valid YAML: {error.problem or error.context}", remedy=remedy
        ) from None
    except yaml.reader.ReaderError as error:
        number = text.count("\n", 0, error.position) + 1
        raise UsageError(
            f"{name}:{number}: not valid YAML: the character U+{error.character:04X} is not allowed",
            remedy="remove the character",
        ) from None
    except RecursionError:
        raise UsageError(f"{name}: nested too deeply", remedy=remedy) from None


class _Loader(yaml.SafeLoader):  # type: ignore[misc]  # PyYAML has no types
    def fetch_flow_collection_start(self, token: type[yaml.Token]) -> None:
        if self.flow_level >= _MOST_NESTED:
            raise RecursionError
        super().fetch_flow_collection_start(token)


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._left = _MOST_NODES

    def documents(self, text: str) -> Iterator[object]:
        for node in yaml.compose_all(text, Loader=_Loader):
            yield self._value(node)

    def _value(self, node: yaml.Node) -> object:
        self._left -= 1
        if self._left < 0:
            raise UsageError(
                f"{self._name}: more than {_MOST_NODES} values",
                remedy="keep only KafkaMirrorMaker2 resources in it",
            )
        kind = node.tag.removeprefix(_TAG)
        if isinstance(node, yaml.MappingNode) and kind == "map":
            return self._mapping(node)
        if isinstance(node, yaml.SequenceNode) and kind == "seq":
            return [self._value(item) for item in node.value]
        if not isinstance(node, yaml.ScalarNode) or kind not in {*_TEXTS, "null", "bool"}:
            raise self._refused(node, f"mmtool does not read the tag {node.tag}", "remove the tag")
        if kind == "null":
            return None
        text: str = node.value
        return _BOOLEANS[text.lower()] if kind == "bool" else text

    def _mapping(self, node: yaml.MappingNode) -> dict[str, object]:
        merged: dict[str, object] = {}
        found: dict[str, object] = {}
        for key, value in node.value:
            if key.tag == _MERGE:
                merged = self._merged(key, value) | merged
                continue
            name = self._value(key)
            if not isinstance(name, str):
                raise self._refused(
                    key, "the name of a key (left of its colon) is not text", "put the name in quotes"
                )
            if name in found:
                raise self._refused(
                    key,
                    f"the key {name} appears twice",
                    "remove one of the two entries, with all lines that belong to it",
                )
            found[name] = self._value(value)
        return merged | found

    def _merged(self, key: yaml.Node, node: yaml.Node) -> dict[str, object]:
        """The mappings that ``<<`` names; the first one wins."""
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: dict[str, object] = {}
        for one in nodes:
            if not isinstance(one, yaml.MappingNode):
                raise self._refused(
                    key,
                    "`<<` merges something that is not a mapping",
                    "let `<<` name the anchor of a mapping, as `<<: *NAME`",
                )
            merged = self._mapping(one) | merged
        return merged

    def _refused(self, node: yaml.Node, what: str, remedy: str) -> UsageError:
        return UsageError(f"{self._name}:{node.start_mark.line + 1}: {what}", remedy=remedy)


# --- one mapping of a document, which remembers the fields that were read: the rest has to be reported ---


class Fields:
    """The fields of one mapping, read by name.

    Texts, mappings and lists are the only values: numbers and booleans are texts already.
    """

    def __init__(self, value: Mapping[str, object], path: str) -> None:
        """Begin with nothing read; ``path`` is the mapping's place, or the document's title and a blank."""
        self._value = value
        self.path = path
        self._read: set[str] = set()
        self._parts: list[Fields] = []

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self.path}{name}" if self.path[-1:] in {"", " "} else f"{self.path}.{name}"

    def has(self, name: str) -> bool:
        """Whether a field has a value."""
        return self._value.get(name) is not None

    def text(self, name: str) -> str | None:
        """A text; None where it is missing.

        Raises:
            UsageError: It is a mapping or a list.
        """
        value = self._take(name)
        if value is not None and not isinstance(value, str):
            raise self._unexpected(name, "a text or a number")
        return value

    def required(self, name: str) -> str:
        """A text that must be there and not blank.

        Raises:
            UsageError: It is not.
        """
        text = self.text(name)
        if text is None or not text.strip():
            raise UsageError(f"{self.at(name)} is missing", remedy="add it, or correct the indentation")
        return text.strip()

    def fields(self, name: str) -> Fields | None:
        """A mapping; None where it is missing, not where it is empty.

        Raises:
            UsageError: It is no mapping.
        """
        value = self._take(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self._unexpected(name, "a mapping")
        return self._part(value, self.at(name))

    def items(self, name: str) -> list[Fields]:
        """The mappings of a list; empty where it is missing.

        Raises:
            UsageError: It is no list of mappings.
        """
        value = self._take(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._unexpected(name, "a list of mappings")
        return [self._part(item, f"{self.at(name)}[{number}]") for number, item in enumerate(value)]

    def settings(self, name: str) -> dict[str, Setting]:
        """The texts of a mapping such as ``config``.

        Raises:
            UsageError: It has a mapping or a list, which neither Strimzi nor Connect accepts.
        """
        part = self.fields(name)
        return {} if part is None else part.all_texts()

    def all_texts(self) -> dict[str, Setting]:
        """All texts of this mapping; raises as `settings`."""
        texts = {name: self.text(name) for name in self._value}
        return {name: Setting(text, self.at(name)) for name, text in texts.items() if text is not None}

    def skip(self, name: str) -> None:
        """Count a field as read."""
        self._read.add(name)

    def rest(self) -> Iterator[str]:
        """The paths of the fields with a value that were not read, those of the parts included."""
        yield from (
            self.at(name)
            for name, value in self._value.items()
            if value is not None and name not in self._read
        )
        for part in self._parts:
            yield from part.rest()

    def _take(self, name: str) -> object:
        self._read.add(name)
        return self._value.get(name)

    def _part(self, value: Mapping[str, object], path: str) -> Fields:
        part = Fields(value, path)
        self._parts.append(part)
        return part

    def _unexpected(self, name: str, expected: str) -> UsageError:
        return UsageError(f"{self.at(name)}: expected {expected}", remedy="correct the document")
