"""The kinds of security of a lab's clusters, and their users."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path


class SecurityKind(StrEnum):
    """How clients authenticate; the value is that of ``mmtool lab up --secure``."""

    SCRAM = "scram"
    MTLS = "mtls"
    OAUTH = "oauth"

    @property
    def protocol(self) -> str:
        """The ``security.protocol`` of the clients' listener."""
        return "SSL" if self is SecurityKind.MTLS else "SASL_SSL"


class Secure(StrEnum):
    """The values of ``--secure``."""

    NONE = "none"
    SCRAM = SecurityKind.SCRAM.value
    MTLS = SecurityKind.MTLS.value
    OAUTH = SecurityKind.OAUTH.value

    @property
    def kind(self) -> SecurityKind | None:
        return None if self is Secure.NONE else SecurityKind(self.value)


ADMIN = "admin"
"""May do everything."""
MMTOOL = "mmtool"
"""Has the rights that the flows of the lab need, and no others."""
GUEST = "guest"
"""Can authenticate, and has no rights."""
USERS = (ADMIN, MMTOOL, GUEST)

BROKER = "broker"
"""The principal of the brokers themselves, known by their certificate."""


def client_file(folder: Path, user: str) -> Path:
    """The properties file of a user, for Kafka's command-line tools."""
    return folder / f"{user}.properties"


def principal(user: str) -> str:
    """The principal of a user, the same with each kind."""
    return f"User:{user}"
