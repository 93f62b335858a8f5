"""What commands that move a flow do beside its owner: what they ask about, let go, and say in the end."""

import asyncio
from types import SimpleNamespace

import pytest

from kit.scene import Scene
from mmtool.errors import MmtoolError, OwnedElsewhereError, UnreachableError, UsageError
from mmtool.insight.flow_progress import copied_by_mm2, short_of
from mmtool.kafka.wire.cluster import ConnectionLostError, UnreadableLogError
from mmtool.replication.flow_state import flow_moves
from mmtool.replication.flow_state.flow_moves import borrowed, joined, rehearse_forget, rehearse_seek
from mmtool.replication.pump.batch_prep import FencedError, InDoubtError
from mmtool.translation.types import TopicPartition, UpstreamOffset

ORDERS = TopicPartition("orders", 0)
BAD = UnreachableError("orders-other-0 has no leader")


@pytest.fixture
def scene(tmp_path, monkeypatch):
    made = Scene(tmp_path)
    made.has("orders", 10)
    made.has("orders-other", 5)
    made.source.unanswered[TopicPartition("orders-other", 0)] = BAD
    monkeypatch.setattr(flow_moves, "owner_now", lambda *_: None)
    return made


@pytest.fixture
def mirrored(scene):
    for topic, end in (("orders", 10), ("orders-other", 5)):
        scene.mirrored(topic, 0, [(0, 0, end)], end)
    return scene


def test_a_seek_of_some_partitions_is_rehearsed(mirrored):
    assert rehearse_seek(mirrored.look(), {ORDERS: UpstreamOffset(5)}).refusal is None


def test_a_forget_of_one_topic_is_rehearsed(mirrored, monkeypatch):
    asked = []

    async def starts(_, places, __):
        asked.extend(places)
        return dict.fromkeys(places, 0)

    monkeypatch.setattr(flow_moves, "ask_starts", starts)
    monkeypatch.setattr(flow_moves, "read_control", lambda *_: SimpleNamespace(positions={}))
    rows = rehearse_forget(mirrored.look(), ("orders",)).rows
    assert ([row.topic for row in rows], asked) == (["orders"], [ORDERS])


def test_a_forget_of_a_topic_that_the_flow_does_not_know_is_refused(mirrored, monkeypatch):
    monkeypatch.setattr(flow_moves, "read_control", lambda *_: SimpleNamespace(positions={}))

    async def starts(_, places, __):
        return dict.fromkeys(places, 0)

    monkeypatch.setattr(flow_moves, "ask_starts", starts)
    with pytest.raises(UsageError) as caught:
        rehearse_forget(mirrored.look(), ("nope", "order"))
    assert caught.value.message.endswith("state of nope, order; did you mean orders?")
    assert caught.value.remedy == "name topics that `mmtool status -c FILE -s east -t west` shows"


def test_of_what_mirror_maker_has_to_copy_no_log_of_another_topic_is_asked_for(scene, monkeypatch):
    """A log whose leader is away is waited for until the time is up, at each look."""
    scene.mirrored_by_mm2("orders", 0, 10, (0, 0), (10, 10))
    asked, goal = set(), {ORDERS: UpstreamOffset(10)}
    for cluster in (scene.source, scene.target):
        monkeypatch.setattr(cluster, "bounds_each", noted(cluster.bounds_each, asked))
    assert short_of(scene.look(), goal) == 0
    assert copied_by_mm2(scene.look(), goal) == goal
    assert asked == {"orders", "east.orders"}


def noted(ask, asked):
    def bounds_each(places, *, committed=False):
        asked.update(place.topic for place in places)
        return ask(places, committed=committed)

    return bounds_each


STOP_FIRST = "stop the process that owns the flow"


@pytest.fixture
def ended():
    """What a command ends with whose work raises this, and how often it let the flow go."""

    def of(error):
        closed = []

        async def close():
            closed.append(1)

        async def work():
            raise error

        async def command():
            async with borrowed("a->b", close, "run it again"):
                await joined(work())

        with pytest.raises(MmtoolError) as caught:
            asyncio.run(command())
        return caught.value, len(closed)

    return of


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FencedError("newer epoch"), (10, "another process took ownership of flow a->b", STOP_FIRST)),
        (InDoubtError("no answer"), (9, "flow a->b: no answer", "run it again")),
        (ConnectionLostError("closed"), (9, "flow a->b: closed", "run it again")),
        (UnreadableLogError("batch 7"), (9, "flow a->b: batch 7", "make another replica the leader")),
        (OwnedElsewhereError("flow a->b is run by c", remedy="x"), (10, "flow a->b is run by c", STOP_FIRST)),
        (UnreachableError("cluster b is away", remedy="wait"), (9, "cluster b is away", "wait")),
    ],
    ids=["fenced", "in doubt", "cut off", "damaged log", "owned", "unreachable"],
)
def test_a_command_ends_with_what_comes_first_and_the_flow_is_let_go(ended, error, said):
    found, closed = ended(error)
    code, message, remedy = said
    assert (found.exit_code, closed) == (code, 1)
    assert found.message.startswith(message)
    assert found.remedy.startswith(remedy)


@pytest.mark.parametrize("error", [RuntimeError("cut off"), asyncio.CancelledError()])
def test_whatever_ends_the_work_the_flow_is_let_go(error):
    closed = []

    async def close():
        closed.append(1)

    async def command():
        async with borrowed("a->b", close, ""):
            raise error

    with pytest.raises(type(error)):
        asyncio.run(command())
    assert closed == [1]
