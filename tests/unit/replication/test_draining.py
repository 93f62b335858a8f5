"""A drain that cannot come to its end says so."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from mmtool.config import load_settings
from mmtool.errors import GateError, OwnedElsewhereError
from mmtool.plan.identity import FlowIdentity
from mmtool.replication import draining
from mmtool.replication.progress import FlowsShown
from mmtool.testing.scene import PROPERTIES

IDENTITY = FlowIdentity("east-id", "west-id", "east", "west")


@pytest.fixture
def drained(tmp_path, monkeypatch):
    """Drain behind an engine that is kept out by an owner, for half a second at the most; how often it was tried."""

    def run(owner):
        tried = []

        class Engine:
            def __init__(self, *_):
                tried.append(owner)

            async def run(self):
                raise OwnedElsewhereError("somebody has the flow", code=owner)

        async def places(*_):
            return IDENTITY, {("id-1", 0): 5}

        async def no(*_):
            return False

        for name, value in {
            "Engine": Engine,
            "_places": places,
            "_reached": no,
            "_runs_elsewhere": no,
        }.items():
            monkeypatch.setattr(draining, name, value)
        monkeypatch.setattr(draining, "_refuse_held", lambda *_: None)
        monkeypatch.setattr(draining, "read_control", lambda *_: None)
        monkeypatch.setattr(draining, "_POLL_SECONDS", 0.01)
        (tmp_path / "mm2.properties").write_text(PROPERTIES)
        flow = load_settings(tmp_path / "mm2.properties", {}).flows[0]
        with suppress(GateError):
            asyncio.run(draining._drain(draining._Drain(flow, FlowsShown(print), print), {}, 0.5))
        return tried

    return run


def test_where_mirror_maker_runs_the_flow_it_is_refused_and_not_tried_for_ever(drained):
    with pytest.raises(OwnedElsewhereError, match="somebody has the flow"):
        drained("mirror_maker")


def test_an_owner_that_comes_in_between_is_watched_in_the_end(drained):
    assert len(drained("owned_elsewhere")) > 1
