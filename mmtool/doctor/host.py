"""Facts about this host: memory, Java, and a connection to a Spark master."""

from __future__ import annotations

import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

_SECONDS = 3.0
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
_MASTER = re.compile(r"(?:spark|sc|k8s)://(?:https?://)?([^;/]+)")
_DEFAULT_PORTS = {"spark": 7077, "sc": 15002, "k8s": 443}


def memory_bytes() -> int | None:
    """The memory of this host, or of the container that this process runs in, in bytes; None where it is unknown."""
    limits = [_number(path) for path in _CGROUP_LIMITS]
    with suppress(ValueError, OSError):
        limits.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    told = [limit for limit in limits if limit is not None]
    return min(told, default=None)


def _number(path: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(path.read_text())
    return None


def master_addresses(master: str | None) -> tuple[str, ...]:
    """``host:port`` of each master of a Spark URL; none for local mode and YARN."""
    found = _MASTER.match(master or "")
    if found is None or master is None:
        return ()
    port = _DEFAULT_PORTS[master.partition(":")[0]]
    return tuple(one if ":" in one else f"{one}:{port}" for one in found[1].split(","))


def unreachable_addresses(addresses: tuple[str, ...]) -> dict[str, str]:
    """The addresses that accept no connection, each with the reason."""
    if not addresses:
        return {}
    with ThreadPoolExecutor(len(addresses)) as pool:
        said = pool.map(_why_unreachable, addresses)
        return {address: why for address, why in zip(addresses, said, strict=True) if why}


def _why_unreachable(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
    except TimeoutError:
        return f"no answer in {_SECONDS:g} s"
    except (OSError, ValueError) as error:
        return (getattr(error, "strerror", None) or str(error)).lower()
    return ""
