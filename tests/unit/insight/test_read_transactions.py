"""Why a source's transactions cannot be read, and what helps against just that."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mmtool.errors import UnreachableError
from mmtool.insight.verify import transactions
from mmtool.kafka.errors import CUT_SHORT, NO_LEADER, THROTTLED
from mmtool.kafka.wire.cluster import ConnectionLostError


@pytest.mark.parametrize(
    ("cause", "remedy"),
    [
        (
            THROTTLED,
            "raise the quota of mmtool's principal on east, or wait for less load, then run the same command again",
        ),
        (CUT_SHORT, "run the same command again"),
        (NO_LEADER, "check that every partition of the topic has a leader on east"),
        ("", "check east.bootstrap.servers, and that the brokers of east run"),
    ],
)
def test_the_remedy_is_that_of_the_cause(monkeypatch, cause, remedy):
    def ask(_question, _what):
        raise ConnectionLostError("orders-0 of east cannot be read", cause)

    monkeypatch.setattr(transactions, "blocking_wire", lambda *_args: SimpleNamespace(ask=ask))
    settings = SimpleNamespace(source=SimpleNamespace(alias="east"))
    flow = SimpleNamespace(partitions={}, clusters=SimpleNamespace(settings=settings))
    with pytest.raises(UnreachableError) as caught:
        transactions.read_half_transactions(flow)
    assert caught.value.remedy == remedy
