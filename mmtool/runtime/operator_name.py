"""The name of the operator on this host, as ``user@host``."""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import suppress


def operator() -> str:
    """The operator and this host, as ``user@host``, by which others can find who runs a command."""
    name = str(os.getuid())  # a container may run as somebody without a name
    with suppress(OSError, KeyError):
        name = getpass.getuser()
    return f"{name}@{socket.gethostname()}"
