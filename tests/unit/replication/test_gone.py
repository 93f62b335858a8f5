"""Mirrors whose target topic is gone begin again: those alone that are gone for good."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from kit.mirror import SOURCE_ID, TARGET_ID, assigned
from mmtool.kafka.wire.codes import Code
from mmtool.kafka.wire.metadata import TopicMetadata
from mmtool.replication.ownership.owned_state import OwnedState
from mmtool.replication.topics import deleted_topics as gone
from mmtool.replication.topics import presence
from mmtool.replication.topics.deleted_topics import forget_deleted
from mmtool.translation.types import TopicId

PLACE, MIRROR = (SOURCE_ID, 0), "source.orders"


class Target:
    """What its brokers say of the mirror, one look after the other: the last of it from then on."""

    def __init__(self, *ids):
        self._ids = list(ids)

    async def refresh(self, topics):
        found = self._ids.pop(0) if len(self._ids) > 1 else self._ids[0]
        return {name: TopicMetadata(name, found, Code.NONE, []) for name in topics if found is not None}


@pytest.fixture
def forgotten(monkeypatch):
    """The topics that are forgotten where the target says such things of the mirror; and the places."""
    monkeypatch.setattr(presence, "_GONE_AFTER_SECONDS", 0.05)
    monkeypatch.setattr(presence, "_LOOK_AGAIN_SECONDS", 0.01)
    struck = []

    async def strike_out(_flow, _standing, places, _count):
        struck.extend(places)

    monkeypatch.setattr(gone, "_strike_out", strike_out)

    def forget(*ids):
        standing = OwnedState({}, {PLACE: assigned().block})
        topics = asyncio.run(forget_deleted(SimpleNamespace(target=Target(*ids)), standing, 1, ()))
        return topics, struck

    return forget


def test_a_mirror_that_a_broker_has_not_heard_of_yet_is_not_begun_again(forgotten):
    """All of it would be there twice."""
    assert forgotten(None, None, TARGET_ID) == ([], [])


@pytest.mark.parametrize("found", [None, TopicId("another")])
def test_a_mirror_that_is_deleted_or_another_one_is_forgotten(forgotten, found):
    assert forgotten(found) == ([MIRROR], [PLACE])
