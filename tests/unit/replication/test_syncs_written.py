"""MirrorMaker 2's offset syncs never end a pump: a sync that cannot be written is dropped, and told."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

import pytest

from kit.mirror import assigned, mirror_of
from mmtool.errors import UnreachableError
from mmtool.kafka.wire.cluster import ConnectionLostError
from mmtool.replication.pump import state_writer
from mmtool.replication.pump.state_writer import SyncBook


class Cluster:
    """Its connections end with this error."""

    alias = "east"

    def __init__(self, error):
        self.error = error

    def topic_id(self, _):
        return UUID(int=1)

    async def send_to_leader(self, *_, **__):
        raise self.error


@pytest.mark.parametrize(
    "error", [ConnectionLostError("east refuses the credentials"), UnreachableError("no answer")]
)
def test_a_cluster_that_refuses_a_session_is_told_and_ends_no_task(monkeypatch, error):
    monkeypatch.setattr(state_writer, "syncs_place", lambda _: ("east", "mm2-offset-syncs.west.internal"))
    mirror = mirror_of(assigned())
    mirror.syncs = SimpleNamespace(
        on_tick=lambda: None, due=lambda: SimpleNamespace(key=lambda: b"k", value=lambda: b"v")
    )

    async def written():
        heard = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
        book = SyncBook(Cluster(error), SimpleNamespace(settings=None), [mirror])
        await book.close()
        assert book._writing.exception() is None
        return book.failure, heard

    assert asyncio.run(written()) == (str(error), [])
