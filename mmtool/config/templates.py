"""Detect text that no tool substituted in a value: ``${NAME}``, ``<name>``, ``{{ name }}``, ``# ...``."""

from __future__ import annotations

import re

_BRACED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_.\-]*)(?::?[-=?+][^}]*)?\}")
"""A variable in braces, also with a shell's default, as in ``${NAME:-x}``."""

_SHELL = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_WINDOWS = re.compile(r"%([A-Za-z_][A-Za-z0-9_]*)%")
_TEMPLATE = re.compile(r"<\s*([A-Za-z][^<>\"']*)>|\{\{\s*([^{}\"']+)\}\}")
_WHOLE_OPTION = re.compile(r"=\s*([\"']?)(?:<\s*[A-Za-z][^<>\"']*>|\{\{[^{}\"']+\}\})\1\s*(?=[\s;]|$)")

_OWN_SYNTAX = re.compile(r"(.*->.*\.|.*\.)?mmtool\.(topic\.rename\.format|spark\.conf\..*)")
"""Keys whose values have a ``${...}`` syntax of their own."""

_SECRETS = (
    "sasl.jaas.config",
    "sasl.username",
    "sasl.oauthbearer.client.credentials.client.id",
    "password",
    "passphrase",
    "secret",
    "token",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
)
"""Endings of keys whose values are secrets and are not quoted."""

_PUBLIC = (
    "ssl.truststore.certificates",
    "ssl.keystore.certificate.chain",
    "sasl.username",
    "sasl.oauthbearer.client.credentials.client.id",
)
"""Keys that are not quoted in messages, and hold no secret."""

_PATHS = (
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.truststore.location",
    "ssl.ca.location",
    "ssl.certificate.location",
)

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
        if not found and _is_template_login(raw):
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


def _is_template_login(raw: str) -> bool:
    return _TEMPLATE.fullmatch(raw.strip()) is not None or _WHOLE_OPTION.search(raw) is not None


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
