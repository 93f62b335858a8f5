"""Text that its writer did not mean as a value: ``${NAME}``, ``$NAME``, ``<name>``, ``{{ name }}``, ``# ...``."""

from __future__ import annotations

import re

_BRACED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.\-]*)(?::?[-=?+][^}]*)?\}")
"""With a shell's default as well, as in ``${NAME:-x}``."""

_SHELL = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_WINDOWS = re.compile(r"%([A-Za-z_][A-Za-z0-9_]*)%")
_TEMPLATE = re.compile(r"<\s*([A-Za-z][^<>\"']*)>|\{\{\s*([^{}\"']+)\}\}")
_WHOLE_OPTION = re.compile(r"=\s*([\"']?)(?:<\s*[A-Za-z][^<>\"']*>|\{\{[^{}\"']+\}\})\1\s*(?=[\s;]|$)")

_OWN_SYNTAX = re.compile(r"(.*->.*\.|.*\.)?mmtool\.(topic\.rename\.format|spark\.conf\..*)")
"""Keys whose values have ``${...}`` of their own."""

_CREDENTIALS = (
    "sasl.jaas.config",
    "sasl.username",
    "password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
)


def unsubstituted(key: str, raw: str) -> str:
    """The sentence about text in a value that was not replaced; empty when there is none.

    A ``$`` may begin a password, so in a login only the other forms count, and what they hold is not quoted.

    Args:
        key: As in the file, with its scope.
        raw: The value as in the file.
    """
    if _OWN_SYNTAX.fullmatch(key):
        return ""
    is_login = key.endswith(_CREDENTIALS)
    found = {f"${{{match.group(1)}}}": match.group(1) for match in _BRACED.finditer(raw)}
    if (
        key == "clusters" and not found
    ):  # an alias in angle brackets is refused as an alias, where a flow needs it
        return ""
    if is_login:
        if not found and _is_template_login(raw):
            return "`<...>` is not substituted; `${env:NAME}` reads the environment"
    else:
        found |= _in_elements(raw, anywhere=key.endswith("bootstrap.servers"))
    if not found:
        return ""
    texts = ", ".join(f"`{text}`" for text in found)
    return (
        f"{texts} not substituted; `${{env:{_variable(next(iter(found.values())))}}}` reads the environment"
    )


def looks_like_variable(key: str, raw: str) -> bool:
    """Whether a login's whole value reads as a shell's ``$NAME``; it may be a password all the same."""
    return key.endswith(_CREDENTIALS) and re.fullmatch(r"\$[A-Za-z_][\w\-]*", raw.strip()) is not None


def holds_comment(key: str, raw: str) -> bool:
    """Whether a secret goes on with ``# ...``, which begins no comment behind a value."""
    is_secret = key.endswith((*_CREDENTIALS, "secret", "token"))
    return is_secret and re.search(r"\s#", raw) is not None


def _is_template_login(raw: str) -> bool:
    return _TEMPLATE.fullmatch(raw.strip()) is not None or _WHOLE_OPTION.search(raw) is not None


def _in_elements(raw: str, *, anywhere: bool) -> dict[str, str]:
    """Shell variables and templates, by the name in them.

    Args:
        raw: A comma list, or one value.
        anywhere: In the middle of an element as well: no server holds ``$`` or ``<``, a pattern may.
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
    """A name for the environment: as it is where it can be one."""
    return re.sub(r"\W+", "_", name.strip().strip(".")) if re.search(r"\W", name.strip()) else name.strip()
