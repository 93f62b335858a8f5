"""The host and the versions that evidence was made with."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from mmtool import __version__
from mmtool.evidence.document import Fact
from mmtool.runtime.process import operator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mmtool.config import FlowSettings

_LIBRARIES = (("confluent_kafka", "confluent-kafka"), ("aiokafka", "aiokafka"), ("pyspark", "pyspark"))


def environment(flows: Iterable[FlowSettings]) -> tuple[Fact, ...]:
    """Facts about this process and host, and the clusters' bootstrap servers as configured."""
    return (*_host(), *_clusters(flows))


def _host() -> Iterator[Fact]:
    yield Fact("written_by", "page written by", operator())
    yield Fact("mmtool", "mmtool", __version__)
    yield Fact("python", "Python", platform.python_version())
    for key, name in _LIBRARIES:
        yield Fact(key, name, _version(name))
    yield Fact("platform", "operating system", platform.platform())


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _clusters(flows: Iterable[FlowSettings]) -> Iterator[Fact]:
    places = {
        cluster.alias: cluster.bootstrap_servers for flow in flows for cluster in (flow.source, flow.target)
    }
    for alias, servers in places.items():
        yield Fact(f"bootstrap_servers_{alias}", f"bootstrap.servers of {alias}", servers)
