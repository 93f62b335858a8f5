"""A properties file, and the files that it names, that are read again when they change; and who may read them."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mmtool.config.placeholders import (
    Resolver,
    UnresolvedError,
    files_named_in,
    holds_secret,
    only_placeholders,
)
from mmtool.config.properties import read_properties
from mmtool.config.read_files import ReadFiles, Stamp, is_read_once, stamps_of
from mmtool.config.sasl import is_secret_option, parse_jaas
from mmtool.config.settings import FlowSettings
from mmtool.config.token_logins import ENDPOINT
from mmtool.errors import MmtoolError
from mmtool.plain_text import shell_word
from mmtool.plan.words import counted

_KEY_FILES = ("ssl.keystore.location", "ssl.key.location")
_JAAS = "sasl.jaas.config"
_TOKEN_FILE = "oauth.access.token.location"  # noqa: S105  an option's name
_MOUNTED = ("/run/secrets/", "/var/run/secrets/")
"""Where container runtimes mount secrets; the mode of such a file is the mount's, and only the container sees it."""


def exposed_files(path: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """A sentence, with the command that mends it, for each file with secrets that others may read.

    The files are the properties file, key stores and private keys, and those that placeholders of secrets name.
    Trust stores and certificates hold no secret. A file of a Kubernetes or container secret is left out.

    Args:
        path: The properties file.
        environ: For placeholders in paths.

    Raises:
        ConfigError: The properties file cannot be read.
    """
    found = {one: _readers(one) for one in _files_with_secrets(path, environ)}
    return tuple(
        f"{one} holds a secret, and {who} may read it: {_mend(one)}" for one, who in found.items() if who
    )


def _mend(path: Path) -> str:
    """How to let only mmtool read a file: another user's file would be closed to mmtool, too, by its mode alone."""
    command = f"`chmod 600 {shell_word(str(path))}`"
    with suppress(OSError):
        if os.getuid() not in {0, path.stat().st_uid}:
            return f"as root, make the user of mmtool the owner of the file, then {command}"
    return command


def _files_with_secrets(path: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    entries = read_properties(path).entries
    resolver = Resolver.declared_in({key: entry.raw for key, entry in entries.items()}, environ)
    secret = {key: one for key, one in entries.items() if holds_secret(key)}
    if any(_holds_secret(key, entry.raw) for key, entry in secret.items()):
        yield path
    for entry in secret.values():
        yield from files_named_in(entry.raw, resolver)
    for key, entry in entries.items():
        with suppress(UnresolvedError):
            if key.endswith(_KEY_FILES):
                yield Path(resolver.resolve(entry.raw).strip())
            elif key.endswith((ENDPOINT, _JAAS)):
                yield from _token_files(key, resolver.resolve(entry.raw).strip())


def _holds_secret(key: str, raw: str) -> bool:
    """Whether a value that may be a secret is one: of a login's options only some are, and no placeholder is."""
    if not key.endswith(_JAAS) or only_placeholders(raw):
        return not only_placeholders(raw)
    try:
        options = parse_jaas(raw).options
    except ValueError:
        return True
    return any(is_secret_option(name) and not only_placeholders(text) for name, text in options.items())


def _token_files(key: str, value: str) -> Iterator[Path]:
    """Yield the files with bearer tokens that a value names."""
    if key.endswith(ENDPOINT) and value.startswith("file:"):
        yield Path(unquote(urlsplit(value).path))
    with suppress(ValueError):
        if key.endswith(_JAAS) and (location := parse_jaas(value).options.get(_TOKEN_FILE)):
            yield Path(location)


def _readers(path: Path) -> str:
    """Who may read a file beside its owner and root, in words; empty for nobody, and where that is unknown."""
    try:
        real, found = path.resolve(), path.stat()
    except (OSError, ValueError, RuntimeError):
        return ""
    # Kubernetes keeps mounted secrets in folders such as ``..2026_01_31``
    is_mounted = any(part.startswith("..") for part in real.parts) or str(real).startswith(_MOUNTED)
    if os.name != "posix" or not stat.S_ISREG(found.st_mode) or is_mounted:
        return ""
    if found.st_mode & stat.S_IROTH:
        return "every user of this host"
    return _group(found) if found.st_mode & stat.S_IRGRP else ""


def _group(found: os.stat_result) -> str:
    """The group that may read a file of this user; another user's file may be readable for this user's sake.

    Files of root are those: ``root:mmtool 0640`` is how a service gets its configuration. A group with the name of the
    owner is private by the convention of Linux distributions.
    """
    import grp
    import pwd

    if found.st_uid == 0 or found.st_uid != os.getuid():
        return ""
    try:
        group, owner = grp.getgrgid(found.st_gid).gr_name, pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        return f"group {found.st_gid}"
    return "" if group == owner else f"group {group}"


_LOOKS_AT_MOST = 5


@dataclass(frozen=True, slots=True)
class Chosen:
    """The flows that a file and a command's options select.

    Attributes:
        flows: The flows to run.
        heartbeats_only: Pairs of clusters that get heartbeats without a flow.
    """

    flows: tuple[FlowSettings, ...]
    heartbeats_only: tuple[FlowSettings, ...] = ()


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file, and the function that reads it.

    Attributes:
        path: Its path.
        load: Reads it whole, with the same options each time. Raises UsageError.
        files: What ``load`` read last: the file, and the stores, PEM files and secrets that it names; also after an
            error.
    """

    path: Path
    load: Callable[[], Chosen]
    files: ReadFiles = field(default_factory=ReadFiles)


class FileWatch:
    """Detects whether any of some files has changed since it was last read. Polled about twice a second.

    A. Files that are being written are left until they all rest, but not for more than five looks.
    B. Each state of the files is reported once: that one is gone, too.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken: dict[Path, Stamp] = {}
        self._seen: dict[Path, Stamp] = {}
        self._looks = 0
        self._watched: Mapping[Path, Stamp] = {path: None}

    def is_due(self) -> bool:
        """Whether a file has changed, and all are to be read now."""
        now = stamps_of(self._watched)
        if now == self._taken:
            self._looks = 0
            return False
        self._looks += 1
        rests, self._seen = now == self._seen, now
        if rests or self._looks >= _LOOKS_AT_MOST:
            self.taken()
            return True
        return False

    def taken(self) -> None:
        """Take the files' present states as read."""
        self._taken = self._seen = stamps_of(self._watched)
        self._looks = 0

    def follow(self, files: ReadFiles, *, also_earlier: bool) -> None:
        """Watch the files of a reading from their states of then on.

        Args:
            files: The files of the reading.
            also_earlier: Whether the earlier files are watched, too: the reading failed, perhaps before them.
        """
        kept = self._taken if also_earlier else {}
        # a properties file that can be read only once is not read again for the sake of the others
        self._watched = self._taken = {} if is_read_once(self._path) else {**kept, **files.stamps}


def first_problem(error: MmtoolError) -> str:
    """The first problem of a file that cannot be used, with the number of the others."""
    first, *more = error.message.splitlines() or [""]
    return f"{first}; the file has {counted(len(more), 'more error')}: {error.remedy}" if more else first
