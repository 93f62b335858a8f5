"""An operation's page is told by its journal: who, when, each step, each group before and after."""

import re
import subprocess
from dataclasses import replace

import pytest

from kit.scene import Scene
from mmtool.evidence.document import PageKind, Tone
from mmtool.evidence.operation import operation_evidence, timeline
from mmtool.evidence.page import render
from mmtool.failover.modes import drill, planned_mode
from mmtool.failover.operation.records import recorded
from mmtool.failover.report.operation_row import recorded_row
from mmtool.plan.failover.choices import TO_FILE, ToTopic
from mmtool.plan.failover.steps import Mode
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.plan.records.journal import JournalEntry
from mmtool.translation.types import TopicPartition
from tests.unit.evidence import conftest
from tests.unit.evidence.conftest import AT

CONTENTS = [f"record {n}" for n in range(20)]
APPS = GroupSelection(("app", "billing"))


@pytest.fixture
def scene(tmp_path):
    """Two groups at 12 of 20 records, mirrored to the end; ``billing`` had committed 5 on the target."""
    made = Scene(tmp_path)
    made.has("orders", 20)
    made.mirrored("orders", 0, [(0, 0, 20)], 20, source_end=20)
    for group in APPS.names:
        made.commits(group, "orders", 12)
        made.told(group, "orders", (12, 12))
    made.target.groups.committed["billing"] = {TopicPartition("east.orders", 0): Commit(5)}
    made.holds(made.source, "orders", enumerate(CONTENTS))
    made.holds(made.target, "east.orders", enumerate(CONTENTS))
    return made


def executed(scene, service=planned_mode, reason="east loses its power"):
    rehearsal = service.rehearse(scene.look(), APPS)
    return service.execute(rehearsal, scene.context(rehearsal, reason))


def evidence_of(scene):
    entries = scene.journal.entries()
    (found,) = recorded(entries)
    return operation_evidence(found, entries, recorded_row(found))


@pytest.mark.parametrize(
    ("mode", "diverged", "name"),
    [
        (Mode.PLANNED, TO_FILE, "records written to east during the failover that were not on west yet"),
        (Mode.EMERGENCY, TO_FILE, "records on east that are not on west"),
        (Mode.FAILBACK, ToTopic("salvage"), "diverged records of east that the groups skip"),
    ],
)
def test_the_figure_of_diverged_records_has_the_name_of_what_its_mode_counts(scene, mode, diverged, name):
    executed(scene)
    entries = scene.journal.entries()
    (found,) = recorded(entries)
    row = recorded_row(found)
    plan = replace(found.head.plan, mode=mode, diverged=diverged)
    evidence = operation_evidence(replace(found, head=replace(found.head, plan=plan)), entries, row)
    assert {fact.key: fact.name for fact in evidence.figures}["diverged_records"] == name


def facts(evidence):
    return {fact.key: fact.value for fact in (*evidence.summary, *evidence.figures)}


def test_it_tells_who_did_what_when_and_what_it_came_to(scene):
    executed(scene)
    evidence = evidence_of(scene)
    told = facts(evidence)
    verdict = evidence.verdict
    assert (evidence.kind, verdict.word, verdict.tone) == (PageKind.OPERATION, "completed", Tone.GOOD)
    expected = {"by": "ann@host-1", "reason": "east loses its power", "from": "east", "to": "west"}
    assert told | expected | {"rpo_records": 0, "reread_records": 0} == told
    assert told["rto_seconds"] > 0


def test_each_group_is_shown_with_what_it_had_before_and_has_after(scene):
    executed(scene)
    page = render({**evidence_of(scene).document(AT), "signed_with": None})
    assert '<td class="number">5</td><td class="number">12</td>' in page
    assert '<td class="number">-</td><td class="number">12</td>' in page


def test_each_entry_of_the_journal_is_a_line_of_the_timeline_and_groups_are_counted(scene):
    executed(scene)
    entries = scene.journal.entries()
    events = [moment.event for moment in timeline(entries)]
    assert events[0] == "operation began"
    assert events[-1] == "operation ended"
    assert "new offsets of 2 groups recorded in the journal, before they are written" in events
    assert "2 offsets of 2 groups written" in events
    assert [moment.at_ms for moment in timeline(entries)] == sorted(
        moment.at_ms for moment in timeline(entries)
    )


def test_a_failed_operation_has_its_problem_at_the_top(scene):
    scene.holds(scene.target, "east.orders", [(n, "foreign") for n in range(20)])
    executed(scene)
    evidence = evidence_of(scene)
    assert (evidence.verdict.word, evidence.verdict.tone) == ("failed", Tone.BAD)
    assert "; error: " in evidence.verdict.sentence


def test_a_drill_has_its_own_figures_and_names_the_groups_and_not_their_shadows(scene):
    ended = executed(scene, drill, "")
    entries = scene.journal.entries()
    (found,) = recorded(entries)
    row = drill.drilled_row(ended, drill.emergency_now(scene.side, APPS))
    evidence = operation_evidence(found, entries, row)
    told = facts(evidence)
    assert (evidence.kind, told["groups"], told["records_read"]) == (PageKind.DRILL, "2: app, billing", 16)
    assert [fact.name for fact in evidence.summary if fact.key in {"from", "to"}] == ["source", "target"]


def test_the_digests_are_those_of_the_records_on_the_journal_topic(scene, tmp_path):
    """As `kafka-console-consumer.sh` prints them: key, tab, value."""
    executed(scene)
    evidence = evidence_of(scene)
    dump = b"".join(key + b"\t" + value + b"\n" for key, value in reversed(scene.journal.stored.items()))
    (tmp_path / "dump").write_bytes(dump + b"operation/other/000001\t{}\n")
    for one in evidence.hashes:
        _, _, narrowed = one.recompute.partition(" | ")
        line = f"cat dump | {narrowed}"
        told = subprocess.run(line, shell=True, check=True, capture_output=True, text=True, cwd=tmp_path)  # noqa: S602 - as the page says it
        assert (one.of, told.stdout.split()[0]) == (one.of, one.sha256)
    assert [one.of for one in evidence.hashes] == ["journal", "plan"]
    assert len({one.sha256 for one in evidence.hashes}) == 2


def entry(number, kind, body, state="running"):
    by = "ann@host-1"
    return JournalEntry("op-1", number, kind, number * 1000, by, state, past_return=False, body=body)


def test_a_fence_of_groups_without_topics_is_told_without_log_ends():
    body = {"stands": True, "ends": [], "topics": []}
    moments = timeline([entry(number, "fence", body) for number in (1, 2)])
    assert {moment.event.partition(": ")[2] for moment in moments} == {"these groups have no topic to fence"}


def test_a_fence_a_diverged_tail_and_a_resumption_are_told():
    entries = [
        entry(1, "began", {"version": "0.1.0", "pid": 7}),
        entry(2, "fence", {"stands": True, "ends": []}),
        entry(3, "fence", {"stands": True, "ends": [["orders", 0, 7]]}),
        entry(4, "step", {"step": "drain", "step_state": "failed", "problem": "not within 8 s"}, "failed"),
        entry(5, "began", {"version": "0.2.0", "pid": 8}),
        entry(6, "tail", {"stands": True}),
        entry(7, "tail", {"stands": False}),
        entry(8, "fence", {"stands": False}),
        entry(9, "ended", {"sentence": "all is well", "problem": ""}, "completed"),
    ]
    assert [(moment.event, moment.detail, moment.state) for moment in timeline(entries)] == [
        ("operation began", "mmtool 0.1.0, pid 7", "running"),
        ("fence against producers recorded in the journal, before it is set", "", "running"),
        ("log ends of the fenced topics recorded in the journal", "", "running"),
        ("step drain: failed", "not within 8 s", "failed"),
        ("operation resumed", "mmtool 0.2.0, pid 8", "running"),
        (
            "diverged records (which never reached the target) recorded in the journal, before they are written",
            "",
            "running",
        ),
        ("diverged records written", "", "running"),
        ("fence against producers lifted", "", "running"),
        ("operation ended", "all is well", "completed"),
    ]


def partition(**more):
    known = {"topic": "orders", "partition": 0, "upstream_offset": 70, "target_topic": "east.orders"}
    known |= {"downstream_offset": 60, "exactness": "exact", "reread_max": 0, "lost_max": 0}
    return known | {"target_offset_before": 50, "written": True, "reason": "", "detail": ""} | more


def shown(mode, *partitions):
    return page_of(mode, {"group": "app", "partitions": list(partitions)})


def page_of(mode, *groups):
    row = {"mode": mode, "flow": "east->west", "groups": list(groups), "steps": []}
    evidence = conftest.evidence_of([row], kind=PageKind.OPERATION)
    return render({**evidence.document(AT), "signed_with": None})


@pytest.mark.parametrize(
    ("mode", "committed", "headings"),
    [
        ("planned", "70|east.orders|50|60", "committed on east|topic on west|before on west|after on west"),
        ("failback", "60|east.orders|50|70", "committed on west|topic on west|before on east|after on east"),
    ],
)
def test_before_and_after_are_of_the_cluster_that_groups_go_to(mode, committed, headings):
    cells = re.sub(r"<t[hd][^>]*>|</t[hd]>", "|", shown(mode, partition())).replace("||", "|")
    assert f"|{headings}|" in cells
    assert f"|{committed}|" in cells


@pytest.mark.parametrize(("written", "after"), [(True, "60"), (False, "50"), (None, "not known")])
def test_an_offset_that_was_not_written_is_what_it_was_before(written, after):
    assert f'<td class="number">50</td><td class="number">{after}</td>' in shown(
        "planned", partition(written=written)
    )


def test_a_group_with_a_refused_partition_stands_first():
    calm = {"group": "calm", "partitions": [partition(partition=n) for n in range(100)]}
    refused = {"group": "wrong", "partitions": [partition(reason="never_ran", detail="was never mirrored")]}
    page = page_of("planned", calm, refused)
    assert page.index("wrong") < page.index("calm")
    assert page.index('<details open="">') < page.index("<details><summary><strong>calm")
