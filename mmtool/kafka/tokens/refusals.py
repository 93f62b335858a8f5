"""Why brokers do not accept a token, in words."""

from __future__ import annotations

import json


def readable_refusal(said: str) -> str:
    """The text of a refused login; a refused token is a JSON document in it (RFC 7628, section 3.2.2)."""
    start = said.find('{"')
    if start < 0:
        return said
    try:
        found, _ = json.JSONDecoder().raw_decode(said, start)
    except (ValueError, RecursionError):
        return said
    status = found.get("status")
    if not isinstance(status, str):
        return said
    scope = f"; they expect the scope {found['scope']}" if found.get("scope") else ""
    # in brackets: after `token:` the redaction of stderr would take it for the token
    return f"the brokers do not accept the token ({status}){scope}"
