"""Derive a broker's Kafka release from its APIs and features; brokers do not report it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mmtool.kafka.wire.api_versions import SpokenApis

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
