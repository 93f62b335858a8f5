"""The name of the operator on this host, as ``user@host``."""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import suppress


def operator() -> str:
    """Who is at work here, for others to ask: ``user@host``."""
    name = str(os.getuid())  # a container may run as somebody without a name
    with suppress(OSError, KeyError):
        name = getpass.getuser()
    return f"{name}@{socket.gethostname()}"
