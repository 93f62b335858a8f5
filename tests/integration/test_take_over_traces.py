"""Where a flow goes on behind MirrorMaker 2, by what it left; and what shows that it is still at work.

MM2's records are written by hand, each partition another end of it. The flow runs from ``target`` to ``source``, so
that no other test's flow is taken over by accident.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pytest
from confluent_kafka import Consumer

from kit.lab_admin import grow_topic
from kit.load import Load, Transactions, produce
from kit.mirror_flow import Owner, flow_of
from kit.mirror_maker import MirrorMakerByHand
from mmtool.config import load_settings
from mmtool.config.aliases import STRIMZI_POSITIONS
from mmtool.errors import OwnedElsewhereError, RefusedError, UsageError
from mmtool.events import is_for_people
from mmtool.kafka.state.own_log import MARK, append_records
from mmtool.lab.ports import wait_until
from mmtool.lab.topics import Content, compare, create_topic, end_offsets, read_topic, topics_of
from mmtool.replication.driver.context import connect
from mmtool.replication.driver.flow_run import FlowRun
from mmtool.replication.mm2.guard import MirrorMakerGuard, MirrorMakerWatch
from mmtool.translation.connect_offsets import CONNECTOR
from mmtool.translation.mm2_records import Heartbeat

FROM, TO = "target", "source"
RECORDS = 500  # the load comes in chunks of as many per partition
COPIED = 220


@dataclass(frozen=True)
class End:
    """How MM2 ended in one partition, and where the mirror is to go on.

    ``last`` is its stored position, ``sync`` its last offset sync; ``altered`` is a copied record whose bytes are
    not the source's, ``again`` records are copied twice in front of all others.
    """

    last: int | None
    sync: int | None
    upstream: int
    said: str = ""
    altered: int | None = None
    again: int = 0


CLEAN = End(COPIED - 1, 200, COPIED)
ENDS = {
    "clean": CLEAN,
    "clean, the last record has a sync": replace(CLEAN, sync=COPIED - 1),
    "unclean: the position is old": replace(CLEAN, last=50),
    "unclean: the position is older than the sync and the first attempt is there twice": replace(
        CLEAN, last=50, again=30
    ),
    "no position was ever stored": replace(CLEAN, last=None),
    "no syncs, clean": End(COPIED - 1, None, COPIED),
    "no syncs, unclean": End(150, None, 151, "records may be on the target twice"),
    "what follows the sync was altered": End(150, 190, 191, "up to 29 records may be", altered=200),
    "what follows the sync was altered, clean": End(COPIED - 1, 190, COPIED, altered=200),
    "MM2 left nothing but records": End(None, None, 0),
}


def copy_of(records, end):
    copied = [*records[: end.again], *records[:COPIED]]
    if end.altered is not None:
        copied[end.altered] = replace(copied[end.altered], value=b"altered")
    return copied


def contents(records, partition):
    return [Content(r.key, r.value, r.headers, r.timestamp_ms) for r in records if r.partition == partition]


def test_a_flow_goes_on_behind_the_last_record_that_mm2_copied_or_is_told_how_many_may_repeat(
    fleet, tmp_path, topic_name
):
    """Never one less; and the cuts outlive a crash before the first record."""
    topic, ends = topic_name("cut"), list(ENDS.values())
    source, target = fleet[FROM].bootstrap, fleet[TO].bootstrap
    settings = flow_of(fleet, tmp_path, FROM, TO, topic)
    mm2, remote = MirrorMakerByHand(settings), settings.remote_topic(topic)
    for cluster, name in ((source, topic), (target, remote)):
        create_topic(cluster, name, len(ends))
    produce(source, Load(topic, RECORDS * len(ends), len(ends), 100))
    records = read_topic(source, topic)
    for partition, end in enumerate(ends):
        mm2.copies(copy_of([r for r in records if r.partition == partition], end), topic, partition)
        if end.last is not None:
            mm2.stores_position(topic, partition, end.last)
        if end.sync is not None:
            mm2.syncs(topic, partition, end.sync, end.sync + end.again)

    async def taken_over():
        owner = await Owner.take(settings, take_over=True)
        said = list(owner.run.warnings)
        await owner.kill()
        again = await Owner.take(settings)
        starts = [
            again.block(topic, p).mirror_start if end.last or end.sync else None for p, end in enumerate(ends)
        ]
        await again.catch_up()
        await again.close()
        return said, starts

    said, starts = asyncio.run(taken_over())
    expected = [(end.upstream, COPIED + end.again) if end.last or end.sync else None for end in ends]
    assert [start and (start.upstream, start.downstream) for start in starts] == expected
    there = read_topic(target, remote)
    for partition, end in enumerate(ends):
        mine = [r for r in records if r.partition == partition]
        wanted = contents([*copy_of(mine, end), *mine[end.upstream :]], partition)
        assert compare(wanted, contents(there, partition)).is_identical, list(ENDS)[partition]
        of_it = [line for line in said if f"{topic}-{partition}:" in line]
        assert ([end.said in line for line in of_it] == [True]) if end.said else of_it == [], said
    assert (
        f"{len(ends) - 1} partitions continue where MirrorMaker 2 stopped; MirrorMaker 2 stored no offset of 1 part"
        in said[0]
    )


def test_aborted_records_that_mm2_copied_are_not_copied_again(fleet, tmp_path, topic_name):
    """It reads uncommitted records unless it is told otherwise."""
    topic = topic_name("aborted")
    settings = flow_of(fleet, tmp_path, FROM, TO, topic)
    mm2, source = MirrorMakerByHand(settings), fleet[FROM].bootstrap
    create_topic(source, topic)
    create_topic(fleet[TO].bootstrap, settings.remote_topic(topic))
    produce(source, Load(topic, 60, 1, 100, transactions=Transactions(topic, 10, 2)))
    records = read_topic(source, topic, isolation="read_uncommitted")
    copied = records[:35]
    mm2.copies(copied, topic, 0)
    mm2.syncs(topic, 0, copied[3].offset, 3)

    async def start():
        owner = await Owner.take(settings, take_over=True)
        await owner.close()
        return owner.block(topic).mirror_start

    found = asyncio.run(start())
    assert (found.upstream, found.downstream) == (copied[-1].offset + 1, len(copied))


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (("stores_position", 5000), "5000.*the source's log ends at 50.*recreated"),
        (("syncs", 30, 5000), "5000.*the target's log ends at 50.*recreated"),
        (
            ("syncs", 30, 31),
            "source offset 30 with target offset 31, but the records at these offsets differ.*recreated",
        ),
    ],
    ids=["source-recreated", "target-shorter", "target-recreated"],
)
def test_traces_of_another_log_are_refused_and_nothing_is_mirrored(fleet, tmp_path, topic_name, trace, words):
    topic, (what, *offsets) = topic_name("other"), trace
    settings = flow_of(fleet, tmp_path, FROM, TO, topic)
    mm2 = MirrorMakerByHand(settings)
    create_topic(fleet[FROM].bootstrap, topic)
    create_topic(fleet[TO].bootstrap, settings.remote_topic(topic))
    produce(fleet[FROM].bootstrap, Load(topic, 50, 1, 100))
    mm2.copies(read_topic(fleet[FROM].bootstrap, topic), topic, 0)
    getattr(mm2, what)(topic, 0, *offsets)
    with pytest.raises(RefusedError, match=rf"{topic}-0: .*{words}") as refused:
        asyncio.run(Owner.take(settings, take_over=True))
    assert "topics.exclude" in refused.value.remedy
    assert len(read_topic(fleet[TO].bootstrap, settings.remote_topic(topic))) == 50


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        ("position of Strimzi's", "mirrormaker2-cluster-offsets"),
        ("none", "already holds records"),
    ],
)
def test_without_a_take_over_it_is_said_that_what_mm2_copied_comes_again(
    fleet, tmp_path, topic_name, trace, words
):
    """Wherever MM2 keeps its positions: a Connect cluster's own topic has any name."""
    topic, fresh = topic_name("ignored"), topic_name("fresh")
    settings = flow_of(fleet, tmp_path, FROM, TO, f"{topic},{fresh}")
    mm2 = MirrorMakerByHand(settings)
    for name in (topic, fresh):
        create_topic(fleet[FROM].bootstrap, name)
    create_topic(fleet[TO].bootstrap, settings.remote_topic(topic))
    produce(fleet[FROM].bootstrap, Load(topic, 50, 1, 100))
    mm2.copies(read_topic(fleet[FROM].bootstrap, topic), topic, 0)
    if trace == "position of Strimzi's":
        names = {"connector": f"{settings.name}.{CONNECTOR}", "into": STRIMZI_POSITIONS}
        mm2.stores_position(topic, 0, 49, **names)

    async def said():
        owner = await Owner.take(settings)
        warnings = list(filter(is_for_people, owner.run.warnings))
        await owner.catch_up()
        await owner.close()
        later = await Owner.take(settings)
        await later.close()
        return warnings, later.run.warnings

    first, second = asyncio.run(said())
    assert [topic in line and words in line and "earliest" in line for line in first] == [True], first
    assert (fresh in first[0], second) == (False, [])
    assert len(read_topic(fleet[TO].bootstrap, settings.remote_topic(topic))) == 100


def test_topics_that_mm2_mirrored_are_refused_with_the_sources_offsets_before_anything_is_created(
    fleet, tmp_path, topic_name
):
    target, topic = fleet[TO].bootstrap, topic_name("kept")
    flow = flow_of(fleet, tmp_path, FROM, TO, topic, **{"mmtool.offsets": "same"})
    mm2 = MirrorMakerByHand(flow)
    create_topic(fleet[FROM].bootstrap, topic)
    produce(fleet[FROM].bootstrap, Load(topic, 50, 1, 100))
    mm2.stores_position(topic, 0, 49)

    async def start():
        run = FlowRun(await connect(flow))
        try:
            await run.check(lambda _: None)
            await run.check_topics()
        finally:
            await run.close(clean=False)

    asyncio.run(start())  # nothing was mirrored
    create_topic(target, flow.remote_topic(topic))
    mm2.copies(read_topic(fleet[FROM].bootstrap, topic), topic, 0)
    before = topics_of(target)
    with pytest.raises(
        UsageError, match=f"MirrorMaker 2 mirrored topic {topic}, with other offsets"
    ) as refusal:
        asyncio.run(start())
    assert f"delete topic {flow.remote_topic(topic)} on {TO}" in refusal.value.remedy
    assert topics_of(target) == before


# --- what shows that MM2 is at work -----------------------------------------------------------------------

_FLOW = """
clusters = here, there
here.bootstrap.servers = {here}
there.bootstrap.servers = {there}
here->there.enabled = true
here->there.topics = {topic}
{extra}
"""


@pytest.fixture
def guarded(fleet, tmp_path, topic_name):
    """``guarded(extra)``: a flow under aliases of its own, its MM2, and what the guard says of it."""

    def of(extra=""):
        topic, alias = topic_name("guarded"), topic_name("here")
        text = _FLOW.format(
            here=fleet[FROM].bootstrap, there=fleet[TO].bootstrap, topic=topic, extra=extra
        ).replace("here", alias)
        path = tmp_path / "guarded.properties"
        path.write_text(text.replace(f"t{alias}", "there"))
        (flow,) = load_settings(path, {}).flows
        return flow, topic

    return of


async def guard(flow, asked):
    context = await connect(flow)
    try:
        said, warnings = [], []
        return await asked(MirrorMakerGuard(context, warnings), context, said.append), said, warnings
    finally:
        await context.close()


def refused(flow):
    """What a start is refused with; None when it is not, with what else was said."""

    async def asked(guard, _, say):
        try:
            await guard.refuse(say)
        except OwnedElsewhereError as error:
            return str(error)

    return asyncio.run(guard(flow, asked))


def test_mm2_in_a_connect_cluster_shows_by_a_heartbeat_or_a_sync_of_the_last_seconds(guarded):
    flow, topic = guarded()
    mm2, alias = MirrorMakerByHand(flow), flow.source.alias
    assert refused(flow) == (None, [], [])
    mm2.beats(int((time.time() - 20) * 1000))
    mm2.syncs("another-topic", 0, 7, 7)
    assert refused(flow) == (None, [], [])
    mm2.beats()
    assert (
        refused(flow)[0]
        == f"MirrorMaker 2 runs flow {flow.name}: it wrote to heartbeats on there in the last 15 s"
    )

    flow, topic = guarded("offset-syncs.topic.location = target")
    MirrorMakerByHand(flow).syncs(topic, 0, 7, 7)
    assert f"it wrote to mm2-offset-syncs.{flow.source.alias}.internal on there" in refused(flow)[0]
    assert alias != flow.source.alias


def test_what_mmtool_writes_itself_is_never_taken_for_mm2_s(guarded):
    flow, _ = guarded()
    MirrorMakerByHand(flow).beats(1)  # the topic is there

    async def asked(guard, context, say):
        beat = Heartbeat(flow.source.alias, flow.target.alias, 1)
        await append_records(context.target, "heartbeats", [(beat.key(), beat.value())], MARK)
        return await guard.look()

    assert asyncio.run(guard(flow, asked))[0] is None


def test_other_topic_names_are_no_reason_to_refuse_but_the_shared_topics_are_warned_of(guarded):
    flow, _ = guarded("mmtool.topic.rename.format = copy-of-${topic}")
    MirrorMakerByHand(flow).beats()
    answer, _, warnings = refused(flow)
    assert (answer, len(warnings)) == (None, 1)
    keys = (f"{flow.name}.emit.{kind}.enabled = false" for kind in ("offset-syncs", "checkpoints"))
    assert " and ".join(keys) in warnings[0]


def test_where_the_file_has_mm2_write_no_sign_of_itself_it_is_said_that_it_may_run_unseen(guarded):
    signs = "emit.heartbeats.enabled = {0}\nemit.offset-syncs.enabled = {1}\nemit.checkpoints.enabled = {1}"
    answers = [refused(guarded(signs.format(*of))[0]) for of in (("false", "false"), ("true", "false"))]
    assert [(answer, len(warnings)) for answer, _, warnings in answers] == [(None, 1), (None, 0)]
    assert "mmtool sees a running MirrorMaker 2 only by its workers' group" in answers[0][2][0]
    assert "-mm2, there-mm2, mirrormaker2-cluster on there)" in answers[0][2][0]


def test_an_mm2_that_comes_back_is_said_once_and_so_is_its_end(guarded):
    """Not what one wrote last that was just taken over from; its members count at once, as the group does."""
    flow, _ = guarded()
    mm2, now = MirrorMakerByHand(flow), int(time.time() * 1000)
    mm2.beats(now - 12_000)

    async def watched(guard, _, say):
        fresh, running = MirrorMakerWatch(guard, say), MirrorMakerWatch(guard, say, _since=0.0)
        await fresh.perform()
        for _ in range(2):
            await running.perform()
        await asyncio.sleep(max(now / 1000 + 4 - time.time(), 0))
        for _ in range(2):
            await running.perform()

    _, said, _ = asyncio.run(guard(flow, watched))
    lately = "it wrote to heartbeats on there in the last 15 s"
    twice = "stop MirrorMaker 2: the target gets each record twice"
    assert said == [
        f"{flow.name}: MirrorMaker 2 now runs this flow too: {lately}; {twice}",
        f"{flow.name}: MirrorMaker 2 has stopped",
    ]


def test_a_group_of_mm2_s_name_with_members_is_named_and_waited_for(guarded, fleet):
    flow, topic = guarded("there.group.id = workers-of-here")
    group = f"workers-of-{flow.source.alias}"
    create_topic(fleet[TO].bootstrap, topic)
    member = Consumer(
        {
            "bootstrap.servers": fleet[TO].bootstrap,
            "group.id": group,
            "client.id": "worker-1",
            "session.timeout.ms": 6000,
        }
    )
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.1) is None and member.assignment(), "an assignment", 30)
    assert f"its group {group} on there has members: worker-1 on 127.0.0.1" in refused(flow)[0]

    async def waited(guard, _, say):
        waiting = asyncio.create_task(guard.wait_until_stopped(say))
        await asyncio.sleep(1)
        still = not waiting.done()
        await asyncio.to_thread(member.close)
        await asyncio.wait_for(waiting, 20)
        return still

    still, said, _ = asyncio.run(guard(flow, waited))
    assert (still, len(said)) == (True, 1)
    assert "waiting until MirrorMaker 2 has stopped: its group" in said[0]


# --- mmtool.start -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "begins"), [("latest", 20), ("a time", 7)])
def test_a_new_topic_begins_where_mmtool_start_says(fleet, tmp_path, topic_name, word, begins):
    """At the end, or at the first record of a time; a partition that is added later is mirrored whole."""
    topic, source = topic_name("start"), fleet[FROM].bootstrap
    first_ms = int(time.time()) * 1000 - 3_600_000
    create_topic(source, topic)
    produce(source, Load(topic, 20, 1, 100, first_timestamp_ms=first_ms, timestamp_step_ms=1000))
    start = datetime.fromtimestamp(first_ms / 1000 + 6.5, UTC) if word == "a time" else word
    settings = flow_of(fleet, tmp_path, FROM, TO, topic).model_copy(update={"start": start})

    async def mirrored():
        owner = await Owner.take(settings)
        await owner.catch_up()
        produce(source, Load(topic, 5, 1, 100, first_sequence=20))
        grow_topic(source, topic, 2)
        wait_until(lambda: len(end_offsets(source, topic)) == 2, "the new partition", 20)
        produce(source, Load(topic, 1000, 2, 100, first_sequence=25))
        await owner.run.refresh()
        await owner.catch_up()
        await owner.close()

    asyncio.run(mirrored())
    there = read_topic(fleet[TO].bootstrap, settings.remote_topic(topic))
    here = [r for r in read_topic(source, topic) if r.partition == 1 or r.offset >= begins]
    assert [contents(there, p) for p in (0, 1)] == [contents(here, p) for p in (0, 1)]
    assert contents(there, 1) != []
