"""A register of producers that may not be looked at: of a source that has shown it, nothing is taken for its own."""

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.batches import NO_PRODUCER_ID
from mmtool.kafka.wire.codes import DENIED, Code
from mmtool.kafka.wire.metadata import TopicMetadata
from mmtool.replication.topics.origins import Origins

ONE_WAY = SimpleNamespace(tells_origins=True, must_tell_origins=False, origins="all")


class Source:
    """A cluster that shows no topic, or has none."""

    alias = "east"

    def __init__(self, code=Code.TOPIC_AUTHORIZATION_FAILED):
        self.code = code

    async def refresh(self, topics):
        return {name: TopicMetadata(name, "", self.code, []) for name in topics}

    def check_denied(self, code, what):
        if code in DENIED:
            raise NotAuthorisedError(what)


def test_a_source_that_never_showed_its_register_is_taken_for_one_that_nobody_mirrors_to():
    origins = Origins.of(ONE_WAY, None, Source())
    asyncio.run(origins.learn({7}))
    assert (origins.is_blind, origins.knows({7}), origins.left_out) == (True, True, set())


def test_one_that_has_shown_it_is_asked_for_the_right_before_anything_is_mirrored_on():
    """What came there by mirroring would go back, and be there twice."""
    origins = Origins.of(ONE_WAY, None, Source(), was_seen=True)
    with pytest.raises(NotAuthorisedError, match=r"DESCRIBE on topic mmtool-producers\.internal"):
        asyncio.run(origins.learn({7}))
    assert not origins.knows({7})


def test_a_source_without_a_register_is_one_that_nobody_mirrors_to_unless_it_has_shown_one():
    """Deleted, or not heard of by one broker: what was mirrored there would go back as well."""
    never = Origins.of(ONE_WAY, None, Source(Code.UNKNOWN_TOPIC_OR_PARTITION))
    asyncio.run(never.learn({7}))
    origins = Origins.of(ONE_WAY, None, Source(Code.UNKNOWN_TOPIC_OR_PARTITION), was_seen=True)
    with pytest.raises(UnreachableError, match=r"mmtool-producers\.internal no longer exists on east"):
        asyncio.run(origins.learn({7}))
    assert (never.knows({7}), origins.knows({7})) == (True, False)


def test_of_the_canary_topic_only_what_was_written_without_a_producer_id_is_carried_on():
    """`mmtool smoke` has none and every mirror has one, so a canary never circulates; the register is not needed."""
    blind = Origins.of(ONE_WAY, None, Source())
    batches = {"mmtool-canary": (NO_PRODUCER_ID, 7), "orders": (NO_PRODUCER_ID, 7)}
    asyncio.run(blind.learn({7}))
    left_out = {
        topic: [one for one in ids if one in blind.left_out_of(topic)] for topic, ids in batches.items()
    }
    assert left_out == {"mmtool-canary": [7], "orders": []}
    assert asyncio.run(blind.leaves_out("mmtool-canary", 7))
