"""Secrets of an import: references to Kubernetes secrets as placeholders, and secrets in clear text taken out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from mmtool.config.placeholders import Placeholder, only_placeholders
from mmtool.config.sasl import is_secret_option, jaas_text, parse_jaas
from mmtool.errors import UsageError
from mmtool.importers.core.connect import Note, NoteKind, Setting, is_secret

if TYPE_CHECKING:
    from mmtool.importers.core.draft import ImportDraft

_PLACEHOLDER = re.compile(r"\$\{([^:{}]+):([^{}]*)\}")
_KUBERNETES = re.compile(r"(?:([a-z0-9.-]+)/)?([a-z0-9.-]+):([A-Za-z0-9._-]+)")
_NAME, _KEY = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"), re.compile(r"[A-Za-z0-9._-]+")
_FOLDER = re.compile(r"[^:{}\s\"'\\]+")
_MOUNTED = {
    "secrets": "Secret",
    "strimzisecrets": "Secret",
    "configmaps": "ConfigMap",
    "strimziconfigmaps": "ConfigMap",
}
"""Config providers of Strimzi that read from Kubernetes, by their usual names."""
_KAFKAS = {"env": "env", "file": "file", "directory": "directory"} | {
    "strimzienv": "env",
    "strimzifile": "file",
    "strimzidir": "directory",
    "dir": "directory",
}
"""Usual names of Kafka's own config providers."""
_JAAS = "sasl.jaas.config"
_NEEDS_QUOTE = re.compile(r"""["'\\]""")
"""Characters that need a backslash within the quotes of a login module's option, which a variable would not have."""


@dataclass(slots=True)
class Mounts:
    """Where Kubernetes secrets are expected as folders, one for each.

    Attributes:
        root: The folder of these folders.
        notes: One for each key of a secret.
    """

    root: str
    notes: dict[str, Note] = field(default_factory=dict)
    _folders: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not _FOLDER.fullmatch(self.root):
            raise UsageError(
                f"--secrets-dir {self.root}: a placeholder cannot contain this path",
                remedy="name a folder without spaces, colons, quotes and braces",
            )

    def placeholder(self, path: str, namespace: str, name: str, key: str, kind: str = "Secret") -> str:
        """The placeholder of one key of a secret; ``path`` is the reference's place in the input.

        Raises:
            UsageError: The names are not valid in Kubernetes.
        """
        where = f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"
        if not (_NAME.fullmatch(name) and _KEY.fullmatch(key)):
            raise UsageError(
                f"{path} has {_wrong(name, key, kind)}",
                remedy="correct the input file: a name has lower-case letters, digits, '-' and '.', and a key also has"
                " capitals and '_'",
            )
        folder = self._folder(where, namespace, name)
        self.notes[f"{where} {key}"] = Note(
            NoteKind.SECRET,
            f"{where}, key {key}",
            f"mount the {kind} at {folder}: mmtool reads {folder}/{key}",
        )
        return str(Placeholder("directory", f"{folder}:{key}"))

    def _folder(self, where: str, namespace: str, name: str) -> str:
        """The folder of a secret; its namespace is part of the name where another secret has the folder already."""
        plain = f"{self.root.rstrip('/')}/{name}"
        holder = self._folders.setdefault(plain, where)
        return plain if holder == where else f"{self.root.rstrip('/')}/{namespace}.{name}"


@dataclass(slots=True)
class SecretPlacement:
    """Replaces secrets in a draft by placeholders, and renames the placeholders of Connect's workers.

    Attributes:
        draft: Changed in place.
        mounts: Takes the Kubernetes secrets.
        keep: Copy secrets in clear text.
    """

    draft: ImportDraft
    mounts: Mounts
    keep: bool
    _variables: dict[str, str] = field(default_factory=dict)

    def place(self) -> None:
        """Replace them all, and add the notes."""
        for key, setting in self.draft.lines.items():
            value = _PLACEHOLDER.sub(partial(self._renamed, setting.path), setting.value)
            self.draft.lines[key] = Setting(self._without_secret(key, value, setting.path), setting.path)
        self.draft.notes |= dict.fromkeys(self.mounts.notes.values())

    def _renamed(self, path: str, found: re.Match[str]) -> str:
        """A placeholder as mmtool resolves it; one of an unknown provider stays."""
        provider, rest = found.groups()
        named = _KUBERNETES.fullmatch(rest)
        if provider in _MOUNTED and named is not None:
            return self.mounts.placeholder(path, named[1] or "", named[2], named[3], _MOUNTED[provider])
        kind = _KAFKAS.get(provider)
        if kind is None:
            do = "write ${env:NAME} or ${file:PATH:KEY} instead"
            message = f"the config provider {provider} is unknown to mmtool: {do}"
            self.draft.note(NoteKind.ATTENTION, path, message)
            return found[0]
        if not rest.startswith(f"{self.mounts.root.rstrip('/')}/"):
            message = f"the placeholder names {_provided(kind, rest)} to mmtool as well"
            self.draft.note(NoteKind.SECRET, path, message)
        return str(Placeholder(kind, rest))

    def _without_secret(self, key: str, value: str, path: str) -> str:
        if not is_secret(key, value) or only_placeholders(value):
            return value
        if not key.endswith(_JAAS):
            return self._hidden(key, value, path)
        try:
            login = parse_jaas(value)
        except ValueError:
            return self._hidden(key, value, path)
        secret = {
            name: text
            for name, text in login.options.items()
            if is_secret_option(name) and not only_placeholders(text)
        }
        if not secret:
            return value
        if any(_NEEDS_QUOTE.search(text) for text in secret.values()):
            return self._hidden(key, value, path)
        start = key.removesuffix("jaas.config")
        options = {
            name: self._hidden(start + name, text, path) if name in secret else text
            for name, text in login.options.items()
        }
        return value if self.keep else jaas_text(login.module, options)

    def _hidden(self, key: str, value: str, path: str) -> str:
        if self.keep:
            self.draft.note(
                NoteKind.ATTENTION, path, "the secret is copied in clear text: protect the properties file"
            )
            return value
        name = self._variable(key)
        self.draft.note(
            NoteKind.SECRET, path, f"the secret is not copied: set the environment variable {name} to it"
        )
        return str(Placeholder("env", name))

    def _variable(self, key: str) -> str:
        """The environment variable of a key; keys that differ only in signs get numbers."""
        plain = re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_") or "SECRET"
        stem = f"_{plain}" if plain[0].isdigit() else plain
        names = (stem, *(f"{stem}_{number}" for number in range(2, len(self._variables) + 3)))
        name = next(name for name in names if self._variables.get(name, key) == key)
        self._variables[name] = key
        return name


def _provided(kind: str, rest: str) -> str:
    """What a placeholder reads on Connect's workers, and the beginning of the request to provide it."""
    if kind == "env":
        return f"a variable of the Connect workers: provide the environment variable {rest}"
    path = rest.rpartition(":")[0] or rest
    if kind == "file":
        return f"a file of the Connect workers: provide {path}"
    return f"a folder of the Connect workers: provide {path}"


def _wrong(name: str, key: str, kind: str) -> str:
    if not _NAME.fullmatch(name):
        return f"the name {name!r}, which Kubernetes does not allow for a {kind}"
    return f"the key {key!r}, which Kubernetes does not allow in a {kind}"
