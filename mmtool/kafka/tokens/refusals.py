"""Why brokers do not accept a token, in words, and as a cause with a remedy."""

from __future__ import annotations

import json
import re

from mmtool.kafka.remedies import OAUTH_REFUSED

_NAMED = re.compile(r"^\[Error \d+\] \w+: (?=\S)")
"""What aiokafka writes before a broker's own words."""


def readable_refusal(said: str) -> str:
    """The broker's words of a refused login, in which a refused token is a sentence."""
    return _of_token(said) or _NAMED.sub("", said)


def cause_of_refusal(name: str, said: str) -> str:
    """The cause of a refused login, as in `REMEDIES`: of a token that brokers do not accept, or ``name``."""
    return OAUTH_REFUSED if _of_token(said) else name


def _of_token(said: str) -> str:
    """Why a token is refused: a JSON document in the text says it (RFC 7628, section 3.2.2); empty without one."""
    start = said.find('{"')
    if start < 0:
        return ""
    try:
        found, _ = json.JSONDecoder().raw_decode(said, start)
    except (ValueError, RecursionError):
        return ""
    status = found.get("status")
    if not isinstance(status, str):
        return ""
    scope = f"; they expect the scope {found['scope']}" if found.get("scope") else ""
    # in brackets: after `token:` the redaction of stderr would take it for the token
    return f"the brokers do not accept the token ({status}){scope}"
