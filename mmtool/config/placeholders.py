"""Resolve ``${env:NAME}``, ``${file:PATH:KEY}`` and ``${directory:PATH:FILE}``; detect text left unsubstituted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mmtool.config.clientkeys import HIDDEN_SECURITY_KEYS, SECURITY_KEYS
from mmtool.config.properties import read_properties
from mmtool.config.read_files import ReadFiles
from mmtool.errors import ConfigError

_BRACED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.\-]*)(?::?[-=?+][^}]*)?\}")
"""A variable in braces, also with a shell's default, as in ``${NAME:-x}``."""

_SHELL = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_WINDOWS = re.compile(r"%([A-Za-z_][A-Za-z0-9_]*)%")
_TEMPLATE = re.compile(r"<\s*([A-Za-z][^<>\"']*)>|\{\{\s*([^{}\"']+)\}\}")
_WHOLE_OPTION = re.compile(r"=\s*([\"']?)(?:<\s*[A-Za-z][^<>\"']*>|\{\{[^{}\"']+\}\})\1\s*(?=[\s;]|$)")

_OWN_SYNTAX = re.compile(r"(.*->.*\.|.*\.)?mmtool\.(topic\.rename\.format|spark\.conf\..*)")
"""Keys whose values have a ``${...}`` syntax of their own."""

_SECRETS = (*HIDDEN_SECURITY_KEYS, "password", "passphrase", "secret", "token")
"""Endings of keys whose values are secrets and are not quoted."""

_PUBLIC = (
    "ssl.truststore.certificates",
    "ssl.keystore.certificate.chain",
    "sasl.username",
    "sasl.oauthbearer.client.credentials.client.id",
)
"""Keys that are not quoted in messages, and hold no secret."""

_PATHS = tuple(name for name in SECURITY_KEYS if name.endswith(".location"))

_VARIABLE = (
    r"(?:\$(?!ConnectionString\b)[A-Za-z_][\w\-]*|%[A-Za-z_]\w*%|@[A-Za-z_][\w.]*@|\$\([^)]*\)|`[^`]*`)"
)
"""A variable of a shell, batch file or build tool; ``$ConnectionString`` is a user name of Azure Event Hubs."""

_WHOLE_VARIABLE = re.compile(_VARIABLE)
_VARIABLE_OPTION = re.compile(rf"([\w.\-]+)\s*=\s*([\"']?){_VARIABLE}\2\s*(?=[\s;]|$)")


def unsubstituted(key: str, raw: str, *, is_read: bool = True) -> str:
    """The sentence about text in a value that was not replaced; empty when there is none.

    A ``$`` may begin a password, so in a secret only the other forms count, and what they hold is not quoted.

    Args:
        key: As in the file, with its scope.
        raw: The value as in the file.
        is_read: Whether mmtool knows the key; the value of an unknown one may be a secret, and is not quoted.
    """
    if _OWN_SYNTAX.fullmatch(key):
        return ""
    found = {f"${{{match.group(1)}}}": match.group(1) for match in _BRACED.finditer(raw)}
    if (
        key == "clusters" and not found
    ):  # an alias in angle brackets is refused as an alias, where a flow needs it
        return ""
    if may_hold_secret(key):
        if not found and (_TEMPLATE.fullmatch(raw.strip()) or _WHOLE_OPTION.search(raw)):
            return "contains text that was not substituted: `<...>`; `${env:NAME}` reads the environment"
    else:
        others = _in_elements(raw, anywhere=key.endswith("bootstrap.servers"))
        if others and not is_read:
            return "contains text that was not substituted; `${env:NAME}` reads the environment"
        found |= others
    if not found:
        return ""
    texts = ", ".join(f"`{text}`" for text in found)
    value = "" if may_hold_secret(key) else "write the value itself, or a placeholder: "
    return (
        f"contains text that was not substituted: {texts}; {value}`${{env:{_variable(next(iter(found.values())))}}}`"
        " reads the environment"
    )


def variable_in_secret(key: str, raw: str) -> str:
    """The sentence about a secret that looks like a variable; empty where none does. It may still be a password.

    Args:
        key: As in the file, with its scope.
        raw: The value as in the file.
    """
    if not may_hold_secret(key):
        return ""
    value = raw.strip()
    if _WHOLE_VARIABLE.fullmatch(value):
        state = "begins with $" if value[0] == "$" else "may be a variable that was not substituted,"
        return f"{state} and is used unchanged; `${{env:NAME}}` reads the environment"
    names = dict.fromkeys(match[1] for match in _VARIABLE_OPTION.finditer(raw) if "jaas" in key)
    if not names:
        return ""
    return (
        f"the value of {' and the value of '.join(names)} may be a variable that was not substituted, and is used "
        "unchanged; `${env:NAME}` reads the environment"
    )


def holds_comment(key: str, raw: str) -> bool:
    """Whether a secret contains ``# ...``, which is no comment after a value."""
    return may_hold_secret(key) and re.search(r"\s#", raw) is not None


def holds_pem(key: str, value: str) -> bool:
    """Whether a key that expects a path holds a PEM document."""
    return key.endswith(_PATHS) and "-----BEGIN" in value


def may_hold_secret(key: str) -> bool:
    """Whether the value of a key, with its scope, may be a secret and is not quoted."""
    return key.lower().endswith(_SECRETS)


def holds_secret(key: str) -> bool:
    """Whether the value of a key, with its scope, is a secret, and not only left out of messages."""
    return may_hold_secret(key) and not key.lower().endswith(_PUBLIC)


def _in_elements(raw: str, *, anywhere: bool) -> dict[str, str]:
    """Shell variables and templates in a value, each with its bare name.

    Args:
        raw: A comma list, or one value.
        anywhere: Also find them within an element: a server never contains ``$`` or ``<``, a pattern may.
    """
    found: dict[str, str] = {}
    for element in raw.split(","):
        word = element.strip()
        shell = _SHELL.finditer(word) if anywhere else filter(None, [_SHELL.match(word)])
        template = _TEMPLATE.finditer(word) if anywhere else filter(None, [_TEMPLATE.fullmatch(word)])
        found |= {match.group(): match.group(1) for match in shell}
        found |= {match.group(): match.group(1) for match in _WINDOWS.finditer(word) if anywhere}
        found |= {match.group(): match.group(1) or match.group(2) for match in template}
    return found


def _variable(name: str) -> str:
    """The name as an environment variable: unchanged where it can be one."""
    return re.sub(r"\W+", "_", name.strip().strip(".")) if re.search(r"\W", name.strip()) else name.strip()


_KAFKA_PACKAGE = "org.apache.kafka.common.config.provider."
_NO_PLACEHOLDER = re.compile(r"""[\s{}"'\\]""")
"""Characters that end a placeholder, or that the text around one gives a meaning."""
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_KIND_OF_CLASS = {
    f"{_KAFKA_PACKAGE}EnvVarConfigProvider": "env",
    f"{_KAFKA_PACKAGE}FileConfigProvider": "file",
    f"{_KAFKA_PACKAGE}DirectoryConfigProvider": "directory",
}


class UnresolvedError(Exception):
    """A placeholder that cannot be resolved; the text says why and contains no value."""


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A reference to a secret: ``str`` gives it as the file has it.

    Attributes:
        kind: env, file or directory.
        name: What follows the kind: ``NAME``, ``PATH:KEY`` or ``PATH:FILE``.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"${{{self.kind}:{self.name}}}"

    @classmethod
    def parse(cls, text: str) -> Placeholder:
        """Read ``env:NAME``, ``file:PATH:KEY`` or ``directory:PATH:FILE``, also in ``${}``.

        Raises:
            ValueError: It is none; the message does not quote it, since it may be the password itself.
        """
        bare = text.strip()
        if bare.startswith("${") and bare.endswith("}"):
            bare = bare[2:-1]
        kind, _, name = bare.partition(":")
        path, _, key = name.rpartition(":")
        is_whole = _VARIABLE_NAME.fullmatch(name) if kind == "env" else path and key
        if kind not in set(_KIND_OF_CLASS.values()) or not is_whole or _NO_PLACEHOLDER.search(name):
            raise ValueError(
                "expected env:NAME, file:PATH:KEY or directory:PATH:FILE, never the secret itself"
            )
        return cls(kind, name)


def provider_declarations(values: Iterable[str]) -> dict[str, str]:
    """The keys that declare Kafka's own providers in the placeholders of some values, as MirrorMaker 2 needs them."""
    placeholders = (_parts(value[start:end]) for value in values for start, end in _places(value))
    named = {parts[0] for parts in placeholders if parts is not None}
    class_of = {kind: name for name, kind in sorted(_KIND_OF_CLASS.items()) if kind in named}
    classes = {f"config.providers.{kind}.class": name for kind, name in class_of.items()}
    return {"config.providers": ", ".join(class_of), **classes} if class_of else {}


@dataclass(frozen=True, slots=True)
class Provider:
    """One name that a placeholder may start with.

    Attributes:
        kind: env, file or directory; empty without a class; anything else is a class that only Java can load.
        allowed: Pattern of permitted environment variables (``param.allowlist.pattern``), or None for all.
        roots: Directories that files must lie in (``param.allowed.paths``); empty for all.
    """

    kind: str
    allowed: re.Pattern[str] | None = None
    roots: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Resolver:
    """Replaces placeholders; one level, no recursion, several per value, as Kafka does."""

    environ: Mapping[str, str] = field(repr=False)
    providers: Mapping[str, Provider]
    files: ReadFiles = field(default_factory=ReadFiles)

    @classmethod
    def declared_in(
        cls, raw: Mapping[str, str], environ: Mapping[str, str], files: ReadFiles | None = None
    ) -> Resolver:
        """A resolver with the built-in providers, and those that ``config.providers`` declares.

        It notes in ``files`` what it reads.
        """
        providers = {kind: Provider(kind) for kind in ("env", "file", "directory")}
        for name in _names(raw.get("config.providers", "")):
            providers[name] = _declared(name, raw, providers.get(name))
        return cls(environ, providers, ReadFiles() if files is None else files)

    def resolve(self, text: str) -> str:
        """Replace every placeholder in ``text``.

        Raises:
            UnresolvedError: A placeholder cannot be resolved.
        """
        resolved: list[str] = []
        at = 0
        for start, end in _places(text):
            resolved += text[at:start], self._answer(text[start:end])
            at = end
        return "".join((*resolved, text[at:]))

    def _answer(self, shown: str) -> str:
        """The value of a text in ``${}``; the text itself if it has no colon, as with Kafka."""
        parts = _parts(shown)
        if parts is None:
            return shown
        name, path, key = parts
        provider = self.providers.get(name)
        if provider is None:
            known = ", ".join(self.providers)
            raise UnresolvedError(
                f"{shown}: the config provider {name!r} is not declared; use one of: {known}"
            )
        if provider.kind == "env":
            return self._variable(provider, path, key, shown)
        if provider.kind == "file":
            return self._from_file(provider, path, key, shown)
        if provider.kind == "directory":
            return self._from_directory(provider, path, key, shown)
        why = (
            f"{provider.kind} is a Java class, which mmtool does not run"
            if provider.kind
            else f"config.providers.{name}.class is not set"
        )
        raise UnresolvedError(
            f"{shown}: {why}: use ${{env:NAME}}, ${{file:PATH:KEY}} or ${{directory:PATH:FILE}}"
        )

    def _variable(self, provider: Provider, path: str, key: str, text: str) -> str:
        if path:
            raise UnresolvedError(f"{text}: an environment variable has no path: write ${{env:{key}}}")
        if provider.allowed is not None and not provider.allowed.fullmatch(key):
            raise UnresolvedError(
                f"{text}: {_setting(text, 'param.allowlist.pattern')} does not permit {key}"
            )
        if key not in self.environ:
            raise UnresolvedError(f"{text}: the environment variable {key} is not set")
        return self.environ[key]

    def _from_file(self, provider: Provider, path: str | None, key: str, text: str) -> str:
        file = _allowed(provider, path, text)
        self.files.note(file)
        try:
            entries = read_properties(file).entries
        except ConfigError as error:
            raise UnresolvedError(f"{text}: {error.message}") from None
        if key not in entries:
            raise UnresolvedError(f"{text}: {file} has no key {key}")
        return entries[key].value

    def _from_directory(self, provider: Provider, path: str | None, key: str, text: str) -> str:
        """The content of a file in a directory; only plain names are allowed, as with Kafka's provider."""
        file = _allowed(provider, path, text) / key
        if not key or Path(key).name != key:
            raise UnresolvedError(f"{text}: expected the name of a file in {path}")
        self.files.note(file)
        try:
            # an editor's line break at the end is never part of a password
            return file.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not UTF-8"
            raise UnresolvedError(f"{text}: {file} cannot be read: {reason}") from None


def _parts(shown: str) -> tuple[str, str, str] | None:
    """Provider, path and key of a text in ``${}``; None if it has no colon, as with Kafka."""
    name, colon, rest = shown[2:-1].partition(":")
    path, second, key = rest.partition(":")
    if not colon:
        return None
    return (name, path, key) if second else (name, "", rest)


def _places(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each text in ``${}``."""
    end = 0
    while (start := text.find("${", end)) >= 0 and (end := text.find("}", start) + 1):
        yield start, end


def only_placeholders(text: str) -> bool:
    """Whether a value is blank, or has nothing but placeholders; ``${NAME}`` without a colon is literal text."""
    end = 0
    for start, after in _places(text):
        if text[end:start].strip() or _parts(text[start:after]) is None:
            return False
        end = after
    return not text[end:].strip()


def files_named_in(text: str, resolver: Resolver) -> Iterator[Path]:
    """Yield the files that the placeholders in a value read."""
    for start, end in _places(text):
        name, path, key = _parts(text[start:end]) or ("", "", "")
        provider = resolver.providers.get(name)
        if provider is not None and provider.kind == "file":
            yield Path(path)
        elif provider is not None and provider.kind == "directory":
            yield Path(path) / key


def _setting(shown: str, name: str) -> str:
    """The key of a setting of the provider that a placeholder names."""
    return f"config.providers.{shown.removeprefix('${').partition(':')[0]}.{name}"


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _declared(name: str, raw: Mapping[str, str], built_in: Provider | None) -> Provider:
    prefix = f"config.providers.{name}."
    class_name = raw.get(f"{prefix}class", "").strip()
    kind = _KIND_OF_CLASS.get(class_name)
    if kind is None:
        kind = built_in.kind if built_in is not None and not class_name else class_name
    pattern = raw.get(f"{prefix}param.allowlist.pattern", "").strip()
    roots = tuple(Path(root) for root in _names(raw.get(f"{prefix}param.allowed.paths", "")))
    return Provider(kind, _compiled(prefix, pattern) if pattern else None, roots)


def _compiled(prefix: str, pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"{prefix}param.allowlist.pattern = {pattern}: expected a regular expression ({error})"
        ) from None


def _allowed(provider: Provider, path: str | None, text: str) -> Path:
    if not path:
        last = "KEY" if provider.kind == "file" else "FILE"
        raise UnresolvedError(f"{text}: expected ${{{provider.kind}:PATH:{last}}}")
    if "\0" in path:
        raise UnresolvedError(f"{text}: a path has no null character")
    file = Path(path)
    if provider.roots and not any(file.resolve().is_relative_to(root.resolve()) for root in provider.roots):
        raise UnresolvedError(f"{text}: {_setting(text, 'param.allowed.paths')} does not permit {file}")
    return file
