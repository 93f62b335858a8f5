"""``translate-offsets`` and ``groups audit`` for flows that the real MirrorMaker 2 runs, and mmtool does not."""

import json
import os
import re
from collections import Counter

import pytest

from kit.beside_mm2 import GROUPS, Variant, beside_mm2
from kit.black_hole import BlackHole
from kit.kafka_tools import consumer_groups
from kit.mm2_model import mm2_answer, mm2_store
from kit.processes import run_mmtool
from mmtool.kafka.mirror_maker import Mm2Topics
from mmtool.translation.answers import Refused, TargetLog
from mmtool.translation.sync_map import translate_by_syncs
from mmtool.translation.types import TopicPartition

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

MARK = f"by-mm2-{os.getpid()}"
DEFAULT = Variant(f"{MARK}-default", "source", "target", isolation="read_committed")
IDENTITY = Variant(
    f"{MARK}-identity",
    "target",
    "source",
    {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.policy.separator": "-",
        "offset-syncs.topic.location": "target",
        "sync.group.offsets.enabled": "true",
    },
)
ONCE = Variant(
    f"{MARK}-once",
    "source",
    "target",
    {"replication.policy.separator": "--"},
    isolation="read_committed",
)
EXACTLY_ONCE = {
    "target.exactly.once.source.support": "enabled",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
}


@pytest.fixture(scope="module")
def both_ways(fleet, tmp_path_factory):
    """One MM2 with two flows, each with a policy and places of its own."""
    return beside_mm2(fleet, tmp_path_factory.mktemp("mm2"), DEFAULT, IDENTITY)


@pytest.fixture(scope="module")
def exactly_once(fleet, tmp_path_factory):
    return beside_mm2(fleet, tmp_path_factory.mktemp("once"), ONCE, **EXACTLY_ONCE)


@pytest.fixture
def default(both_ways):
    return both_ways[0]


@pytest.fixture
def identity(both_ways):
    return both_ways[1]


@pytest.fixture
def once(exactly_once):
    return exactly_once[0]


@pytest.fixture(params=["default", "identity", pytest.param("once", marks=pytest.mark.chaos)])
def mirrored(request):
    return request.getfixturevalue(request.param)


def truth_of(mirrored, row):
    return mirrored.truth[row["topic"], row["partition"]]


def left_of(mirrored, row):
    """The records that are there now: of compacted logs those that both cleaners have left."""
    return mirrored.survivors.get((row["topic"], row["partition"]), truth_of(mirrored, row))


def records_in(reason):
    """``would read 1,126 to 1,146 records again``"""
    return [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?= )", reason)]


def remote_of(row):
    return TopicPartition(row["target_topic"], row["partition"])


def test_every_group_has_an_answer_that_names_what_it_was_told_by(mirrored):
    assert {row["knowledge"] for row in mirrored.rows} == {"offset_syncs"}
    assert {row["exactness"] for row in mirrored.rows} == {"exact", "bounded"}
    assert len(mirrored.rows) == (GROUPS + 1) * len(mirrored.places)


def test_what_mm2_mirrored_is_identical_and_shown_as_mirrored_by_it(mirrored):
    """Transactions and compacted topics included."""
    flow = (
        "-c",
        str(mirrored.properties),
        "-s",
        mirrored.flow.source.alias,
        "-t",
        mirrored.flow.target.alias,
    )
    verified, status = (
        [row for row in answer.rows if row["topic"] in mirrored.topics]
        for answer in (
            run_mmtool(mirrored.properties.parent, command, *flow, "-o", "json")
            for command in ("verify", "status")
        )
    )
    assert [row for row in verified if row["verdict"] != "identical"] == []
    assert len(verified) == len(status) == len(mirrored.places)
    assert min(row["records_compared"] for row in verified) > 100
    assert {(row["lag_records"], row["reason"].partition(",")[0]) for row in status} == {
        (0, "mirrored by MirrorMaker 2")
    }


def test_no_answer_is_worse_than_mm2_s_own_checkpoint(mirrored, measured):
    held = mirrored.checkpoints()
    ours, theirs = Counter(), Counter()
    for row in mirrored.rows:
        if row["group"] == mirrored.unheard:
            continue
        checkpoint, truth = held[row["group"], remote_of(row)], truth_of(mirrored, row)
        assert checkpoint.upstream == row["upstream_offset"]
        assert truth.skipped(checkpoint.upstream, checkpoint.downstream) == []
        assert row["downstream_offset"] >= checkpoint.downstream
        ours[row["topic"]] += truth.read_again(checkpoint.upstream, row["downstream_offset"])
        theirs[row["topic"]] += truth.read_again(checkpoint.upstream, checkpoint.downstream)
    figures = ", ".join(f"{topic} {ours[topic]} and {theirs[topic]}" for topic in mirrored.topics)
    measured(f"records read again by {GROUPS} groups, by mmtool's answers and MM2's checkpoints: {figures}")
    assert ours <= theirs
    assert ours.total() < theirs.total()


def test_no_answer_skips_a_record_or_has_more_read_again_than_it_says(mirrored):
    """For every offset of every partition, both ways, whether the source answers or not."""
    maps = Mm2Topics(mirrored.flow).synced().maps
    for (topic, partition), truth in mirrored.truth.items():
        known = maps[TopicPartition(topic, partition)]
        assert truth.lost == []
        assert list(truth.wrong_forward(known)) == []
        assert list(truth.wrong_back(known)) == []


def test_no_offset_gets_an_answer_before_the_one_of_mm2_s_store(mirrored):
    """Which MM2 would give a group that stands there."""
    maps = Mm2Topics(mirrored.flow).synced().maps
    for place, syncs in mirrored.syncs.items():
        truth, store = mirrored.truth[place], mm2_store(syncs)
        target = TargetLog(0, truth.target_end)
        for commit in range(truth.source_end + 1):
            answer, theirs = translate_by_syncs(maps[place], commit, target=target), mm2_answer(store, commit)
            assert theirs is None or (not isinstance(answer, Refused) and answer.offset >= theirs)


def test_where_compaction_took_records_from_both_logs_the_last_of_each_key_is_met(mirrored):
    """For every offset; the answers are of copies, some of which the target's cleaner has taken since."""
    maps = Mm2Topics(mirrored.flow).synced().maps
    for place, left in mirrored.survivors.items():
        copied = mirrored.truth[place]
        assert len(left.source) < len(copied.source)
        assert len(left.copies) < len(copied.copies)
        assert left.lost == []
        assert list(left.wrong_forward(maps[TopicPartition(*place)])) == []


def test_mm2_never_tells_of_a_group_with_a_comma_in_its_name_and_mmtool_does(mirrored):
    told = {group for group, _ in mirrored.checkpoints()}
    answered = {row["group"] for row in mirrored.rows}
    assert (mirrored.unheard in told, mirrored.unheard in answered) == (False, True)
    assert set(mirrored.groups) <= told


def test_refined_by_the_records_no_answer_is_wrong_or_less_sure_and_each_carries_its_proof(
    mirrored, measured
):
    """The records before and after each boundary are the same on both sides."""
    rows = mirrored.run("translate-offsets", "--refine", "-o", "json").rows
    for row, told in zip(rows, mirrored.rows, strict=True):
        place = (row["upstream_offset"], row["downstream_offset"])
        truth = left_of(mirrored, row)
        assert truth.skipped(*place) == []
        assert truth.read_again(*place) <= row["reread_max"] <= told["reread_max"]
        for side, pair in (row["proof"] or {}).items():
            if pair is not None:
                assert pair["upstream_sha256"] == pair["downstream_sha256"]
                assert (pair["upstream_offset"] < place[0]) == (side == "before")
                assert (pair["downstream_offset"] < place[1]) == (side == "before")
    exact = {
        topic: Counter(row["exactness"] for row in rows if row["topic"] == topic) for topic in mirrored.topics
    }
    measured(f"refined: {', '.join(f'{topic} {dict(count)}' for topic, count in exact.items())}")
    assert {row["knowledge"] for row in rows} == {"offset_syncs", "records"}


def test_where_nothing_is_compacted_away_refined_answers_are_exact(default):
    rows = default.run("translate-offsets", "--refine", "-o", "json").rows
    assert {row["exactness"] for row in rows if "compacted" not in row["topic"]} == {"exact"}


@pytest.mark.chaos
def test_with_exactly_once_mm2_s_own_transactions_take_room_on_the_target(once):
    """Which its syncs are read with regard to."""
    assert once.flow.mm2_exactly_once
    assert all(len(truth.at) < truth.target_end for truth in once.truth.values())


# --- failover emergency, where mmtool never ran --------------------------------------------------------------


@pytest.fixture(params=["default", "identity"])
def cut_off(request, mmtool, tmp_path):
    """The flow whose source is a black hole from now on; how an emergency on it is begun, and its way back."""
    flow = request.getfixturevalue(request.param)
    file = tmp_path / "cut-off.properties"
    alias, named = flow.flow.source.alias, [word for group in flow.groups for word in ("-g", group)]
    ends = ("-c", file, "-s", alias, "-t", flow.flow.target.alias, "-o", "json")
    with BlackHole() as hole:
        away = f"{alias}.bootstrap.servers={hole.bootstrap}"
        text = re.sub(
            rf"^{alias}\.bootstrap\.servers=.*$", away, flow.properties.read_text(), flags=re.MULTILINE
        )
        file.write_text(text)
        yield flow, lambda command, *more: mmtool("failover", command, *more, *ends), named
        assert hole.attempts == 0


def partitions_of(ended):
    (row,) = ended.rows
    return [{"group": of["group"], **partition} for of in row["groups"] for partition in of["partitions"]]


def test_without_its_source_every_group_has_an_answer_that_never_skips_and_the_loss_is_not_known(
    cut_off, measured
):
    """By checkpoints alone where the syncs are on the source, and by both where they are on the target."""
    mm2, failover, named = cut_off
    ended = failover("emergency", *named)
    rows, again = partitions_of(ended), 0
    assert (ended.code, len(rows)) == (0, GROUPS * len(mm2.places)), ended.stderr
    for row in rows:
        truth, place = truth_of(mm2, row), (row["upstream_offset"], row["downstream_offset"])
        assert (row["reason"], row["lost_max"], truth.skipped(*place)) == ("", None, [])
        assert truth.read_again(*place) <= row["reread_max"]
        again += truth.read_again(*place)
    assert ended.rows[0]["rpo_records"] is None
    assert any(
        "the number of lost records is unknown" in said for said in json.loads(ended.stdout)["warnings"]
    )
    told = sum(row["reread_max"] for row in rows)
    measured(f"emergency on MM2's flow: {again} read again of {told} at the most, {ended.seconds:.1f} s")


def test_where_mm2_commits_nothing_every_group_is_behind(default):
    rows = default.run("groups", "audit", "-o", "json").rows
    assert {(row["verdict"], row["reason"]) for row in rows} == {("behind", "nothing is committed on target")}


def test_kafka_s_own_tool_takes_what_is_exported_and_exports_the_same_bytes(default, tmp_path):
    """Group names with blanks, quotes and commas, and long ones."""
    file = tmp_path / "reset.csv"
    file.write_text(default.run("groups", "export").stdout)
    selected = [word for group in (*default.groups, default.unheard) for word in ("--group", group)]
    consumer_groups(default.target, "--reset-offsets", "--from-file", str(file), "--execute", *selected)
    exported = consumer_groups(
        default.target, "--reset-offsets", "--to-current", "--all-topics", "--export", *selected
    )
    assert sorted(exported.splitlines()) == ["", *sorted(file.read_text().splitlines())]

    audited = default.run("groups", "audit", "-o", "json").rows
    assert {row["verdict"] for row in audited} == {"synced"}


def test_no_answer_is_before_what_mm2_has_committed_for_the_group(identity):
    """With ``sync.group.offsets.enabled`` MM2 commits its checkpoints; so an answer never takes a group back."""
    committed = identity.committed()
    assert committed == {at: told.downstream for at, told in identity.checkpoints().items()}
    for row in identity.rows:
        before = committed.get((row["group"], remote_of(row)))
        assert row["target_offset_before"] == before
        assert before is None or before <= row["downstream_offset"]


def test_the_audit_says_how_far_mm2_left_each_group_behind(identity, measured):
    """No group reads more again than is said, where it would go on now."""
    committed, verdicts = identity.committed(), []
    for row in identity.run("groups", "audit", "-o", "json").rows:
        place = TopicPartition(identity.remotes[row["topic"]], row["partition"])
        before = committed.get((row["group"], place))
        assert row["target_offset"] == before
        verdicts.append((row["group"] == identity.unheard, row["verdict"]))
        if before is not None:
            again = truth_of(identity, row).read_again(row["upstream_offset"], before)
            assert again <= sum(records_in(row["reason"])), row
            assert (row["verdict"] == "synced") is (before == row["downstream_offset"])
    measured(
        f"of {len(verdicts)} partitions of groups {verdicts.count((False, 'synced'))} are where they could be"
    )
    assert set(verdicts) == {(True, "behind"), (False, "behind"), (False, "synced")}


def test_what_mm2_left_behind_is_brought_forward(identity):
    written = identity.run("translate-offsets", "--execute", "--yes", "-o", "json").rows
    assert {row["written"] for row in written} == {True}
    audited = identity.run("groups", "audit", "-o", "json").rows
    assert {row["verdict"] for row in audited} == {"synced"}


def test_records_that_mm2_cannot_have_written_are_counted_and_change_no_answer(identity):
    """Tombstones among them, over which MM2 itself stops to translate; by both of its topics."""
    before = identity.run("translate-offsets", "-o", "json")
    spoilt = identity.spoil()
    said = [
        f"{topic}: skipped {n} records that MirrorMaker 2 cannot have written; mmtool uses the others"
        for topic, n in spoilt.items()
    ]
    after = identity.run("translate-offsets", "-o", "json")
    assert after.rows == before.rows
    assert json.loads(after.stdout)["warnings"] == sorted(said)
    assert [line for line in after.said if line.startswith("warning: ")] == [
        f"warning: {s}" for s in sorted(said)
    ]
    audited = identity.run("groups", "audit", "-o", "json")
    assert {row["verdict"] for row in audited.rows} == {"synced"}
    assert json.loads(audited.stdout)["warnings"] == sorted(said)
