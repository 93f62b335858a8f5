"""The Kafka release of brokers, as far as it can be derived, and the check of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mmtool.doctor.finding import cluster_check, ok, problem, warning
from mmtool.plan.words import few

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mmtool.doctor.examination import ExaminedCluster
    from mmtool.doctor.finding import Finding
    from mmtool.kafka.admin.listeners import ListenerAnswer
    from mmtool.kafka.wire.request import SpokenApis


METADATA_VERSION = "metadata.version"


class Release(NamedTuple):
    """A Kafka release, as far as it can be derived.

    Attributes:
        is_newer: Newer than the newest that mmtool knows.
    """

    major: int
    minor: int
    is_newer: bool = False

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}" + (" or later" if self.is_newer else "")


OLDEST = Release(2, 0)
"""The oldest release that can be derived; earlier ones look the same."""

_BY_LEVEL = (
    (34, Release(4, 4, is_newer=True)),
    (31, Release(4, 4)),
    (30, Release(4, 3)),
    (28, Release(4, 2)),
    (26, Release(4, 1)),
    (22, Release(4, 0)),
    (21, Release(3, 9)),
    (20, Release(3, 8)),
    (15, Release(3, 7)),
    (12, Release(3, 6)),
    (9, Release(3, 5)),
    (8, Release(3, 4)),
    (4, Release(3, 3)),
)
"""The lowest ``metadata.version`` that only this release and later ones know (``MetadataVersion``), newest first."""

_BY_API = (
    (1, 17, Release(3, 9)),
    (1, 16, Release(3, 7)),
    (1, 14, Release(3, 5)),
    (35, 4, Release(3, 3)),
    (11, 8, Release(3, 2)),
    (1, 13, Release(3, 1)),
    (65, 0, Release(3, 0)),
    (60, 0, Release(2, 8)),
    (1, 12, Release(2, 7)),
    (48, 0, Release(2, 6)),
    (9, 7, Release(2, 5)),
    (47, 0, Release(2, 4)),
    (3, 8, Release(2, 3)),
    (11, 4, Release(2, 2)),
    (1, 10, Release(2, 1)),
)
"""An API's number and a version that came with a release (Kafka's protocol guide), newest first: with ZooKeeper."""


def release_of(spoken: SpokenApis) -> Release:
    """The newest release by a broker's feature levels, else by its API versions."""
    level = spoken.features.get(METADATA_VERSION, 0)
    by_level = (release for mark, release in _BY_LEVEL if level >= mark)
    by_api = (release for api, version, release in _BY_API if spoken.versions.get(api, (0, -1))[1] >= version)
    return next(by_level, None) or next(by_api, OLDEST)


class Floor(NamedTuple):
    """The minimum that a role needs."""

    role: str
    major: int
    minor: int


SOURCE_FLOOR = Floor("source", 2, 1)
TARGET_FLOOR = Floor("target", 2, 5)
_TOPIC_IDS = (2, 8)


@cluster_check("versions")
def check_versions(cluster: ExaminedCluster) -> Iterator[Finding]:
    """The release of each broker, by its `metadata.version` and API versions.

    Problem: a source before 2.1, a target before 2.5
    Warning: several releases; brokers before 2.8, which have no topic ids
    Effect: with a too old broker `replicate` does not run; without topic ids mmtool cannot distinguish a recreated
        topic from the old one
    Remedy: upgrade the brokers; complete the upgrade
    """
    is_target = any(flow.target.alias == cluster.alias for flow in cluster.settings_of_file.flows)
    floor = TARGET_FLOOR if is_target else SOURCE_FLOOR
    return judge_versions(cluster.alias, cluster.details.listeners(), floor)


def judge_versions(alias: str, answers: Sequence[ListenerAnswer], floor: Floor) -> Iterator[Finding]:
    """Findings about brokers that are too old, and about an upgrade in progress."""
    found: dict[Release, list[str]] = {}
    for one in answers:
        if one.apis is not None:
            name = one.address if one.broker is None else f"broker {one.broker}"
            names = found.setdefault(release_of(one.apis), [])
            names.extend([name] if name not in names else [])
    if not found:
        message = f"the Kafka release of {alias} was not checked: no broker answered the request for its API versions"
        yield warning(alias, "", message, f"see the listeners and authentication rows of {alias}")
        return
    findings = [*_old(alias, found, floor), *_mixed(alias, found)]
    yield from findings or [ok(f"Kafka {next(iter(found))}")]


def _old(alias: str, found: dict[Release, list[str]], floor: Floor) -> Iterator[Finding]:
    oldest = min(found)
    needed = f"{floor.major}.{floor.minor}"
    if oldest[:2] < (floor.major, floor.minor):
        message = (
            f"{few(found[oldest])} of {alias} {_run(found[oldest])} {_named(oldest)}: a {floor.role} cluster needs"
            f" Kafka {needed} or later"
        )
        yield problem(alias, "", message, f"upgrade the brokers to {needed} or later")
    elif oldest[:2] < _TOPIC_IDS:
        message = (
            f"{few(found[oldest])} of {alias} {_run(found[oldest])} {_named(oldest)}, which has no topic ids: mmtool"
            " cannot distinguish a topic that is deleted and created again from the deleted one"
        )
        yield warning(alias, "", message, "upgrade the brokers to 2.8 or later")


def _run(brokers: Sequence[str]) -> str:
    return "runs" if len(brokers) == 1 else "run"


def _named(release: Release) -> str:
    """A broker's release in words; the oldest one that can be derived includes all earlier ones."""
    return f"Kafka {release} or earlier" if release == OLDEST else f"Kafka {release}"


def _mixed(alias: str, found: dict[Release, list[str]]) -> Iterator[Finding]:
    if len(found) > 1:
        each = "; ".join(f"{_named(release)}: {few(names)}" for release, names in sorted(found.items()))
        message = (
            f"brokers of {alias} run {len(found)} releases ({each}), as during an upgrade: a broker that restarts"
            " delays a failover"
        )
        yield warning(alias, "", message, "complete the upgrade before a planned failover")
