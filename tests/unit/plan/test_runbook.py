"""The runbook: every step's texts, the plan's own numbers, and commands that can be copied."""

import re
import subprocess
import tomllib
from dataclasses import replace
from importlib.resources import files
from itertools import product

import pytest
from hypothesis import given

from kit.names import names, sent
from kit.one_name import OneName
from kit.plans import SAVABLE, saved_plans
from kit.scene import half_read
from kit.there_and_back import ThereAndBack
from mmtool.failover.modes import emergency, failback, planned_mode
from mmtool.failover.report.plan_file import runbook_of, saved_of
from mmtool.failover.report.runbook import Runbook, render
from mmtool.plain_text import group_options
from mmtool.plan.failover.choices import TO_FILE, FenceKind, ToTopic
from mmtool.plan.failover.failover_plan import FailoverPlan
from mmtool.plan.failover.fence_plan import NO_FENCE, Fence
from mmtool.plan.failover.risks import Guard, Loss, StateLag
from mmtool.plan.failover.steps import FENCE_STEPS, ORDER, Mode, StepName
from mmtool.plan.groups.applications import StateTopic
from mmtool.plan.groups.facts import GroupKind, GroupSelection
from mmtool.plan.groups.imports import parse_reset_csv
from mmtool.plan.groups.offsets import Direction, GroupPlan
from mmtool.plan.runbook.by_hand import Hands, ToolCluster
from mmtool.plan.words import Names
from mmtool.translation.answers import Bounded
from mmtool.translation.types import UNKNOWN

APP = GroupSelection(("app",))
PLACES = ToolCluster("east", "east-1:9092"), ToolCluster("west", "west-1:9092")


@pytest.fixture
def scene(tmp_path):
    made = half_read(tmp_path)
    made.told("app", "orders", (12, 11), (10, 10))
    return made


def saved_by(scene, mode, diverged=TO_FILE):
    if mode is Mode.FAILBACK and diverged != TO_FILE:
        rehearsal = failback.rehearse(OneName(scene.config.parent).both, APP, diverged=diverged)
        return saved_of(rehearsal, {"diverged": diverged.words})
    if mode is Mode.FAILBACK:
        return saved_of(failback.rehearse(ThereAndBack(scene.config.parent).both, APP), {})
    if mode is Mode.PLANNED:
        return saved_of(planned_mode.rehearse(scene.look(), APP), {"fence": "none"})
    return saved_of(emergency.rehearse(scene.side, APP), {"unknown": "leave"})


def page_of(scene, mode=Mode.PLANNED, kept=None):
    return render(runbook_of(saved_by(scene, mode), scene.settings, "my file.properties", kept=kept))


def texts_of(page):
    """The texts of each step of a page by their headings, by the step's name."""
    steps = re.split(r"^### \d+\. (\w+)$", page, flags=re.MULTILINE)[1:]
    return {
        name: dict(re.findall(r"^- \*\*(.+?)\*\*: (.+)$", text, re.MULTILINE))
        for name, text in zip(steps[::2], steps[1::2], strict=True)
    }


HEADINGS = ["Does", "Done when", "Stop when", "Undo", "By hand"]


def assert_whole(texts, names):
    assert list(texts) == list(names)
    for of in texts.values():
        assert list(of) == HEADINGS
        assert all(text.endswith(".") for heading, text in of.items() if heading != "Does")
        assert not re.search(r"[{}]", "".join(of.values()))


def test_each_variant_of_a_text_is_one_that_a_plan_can_be():
    fences = [NO_FENCE, *(Fence(kind, topics) for kind in FenceKind for topics in ((), ("orders",)))]
    choices = [TO_FILE, ToTopic("salvage")]
    names = [(), ("orders",)]
    plan = FailoverPlan("op-1", Mode.PLANNED, Names("east", "west"), ())
    words = {"promoted"}.union(
        *(
            replace(
                plan, mode=mode, fence=fence, diverged=diverged, state=topics, held=topics, released=released
            ).case
            for mode, fence, diverged, topics, released in product(Mode, fences, choices, names, names)
        )
    )
    tables = tomllib.loads(files("mmtool.plan.failover").joinpath("steps.toml").read_text())
    variants = {
        word
        for table in tables.values()
        for name, texts in table.items()
        if isinstance(texts, dict)
        for word in name.split(", ")
    }
    assert variants - words == set()
    assert tables.keys() == {"shared", *StepName}


@pytest.mark.parametrize("mode", SAVABLE)
def test_the_pages_steps_are_the_plans_steps_with_all_texts_and_the_commands_of_each(scene, mode):
    page, saved = page_of(scene, mode), saved_by(scene, mode)
    assert_whole(texts_of(page), ORDER[mode])
    for step in saved.plan.steps:
        assert f"- **Does**: {step.sentence}\n" in page
        commands = Hands(saved.plan, *PLACES).commands(step.name)
        tools = [line for line in commands if line.startswith("kafka-")]
        assert all("--bootstrap-server" in line and ".properties" in line for line in tools)


def test_what_becomes_of_diverged_records_is_on_the_page_as_it_is_typed_and_done(scene):
    saved = saved_by(scene, Mode.FAILBACK, ToTopic("salvage"))
    page = render(runbook_of(saved, scene.settings, "my.properties", kept=None))
    assert_whole(texts_of(page), ORDER[Mode.FAILBACK])
    assert "-g app --diverged topic salvage --execute" in page
    assert "- **Does**: write the diverged records to topic salvage of east" in page
    assert "The file of diverged records" not in page


def fenced(scene, kind):
    """The texts of a planned failover behind such a fence."""
    saved = saved_by(scene, Mode.PLANNED)
    fence = Fence(kind, ("orders",))
    saved = replace(saved, plan=replace(saved.plan, fence=fence).with_steps())
    return texts_of(render(runbook_of(saved, scene.settings, "my.properties", kept=None)))


@pytest.mark.parametrize("kind", [FenceKind.ACL, FenceKind.HOOK, FenceKind.WATCH])
def test_only_the_steps_of_a_fence_that_mmtool_sets_speak_of_rules_and_of_lifting_it(scene, kind):
    texts = fenced(scene, kind)
    assert_whole(texts, [*ORDER[Mode.PLANNED][:1], *FENCE_STEPS, *ORDER[Mode.PLANNED][1:]])
    for name in FENCE_STEPS:
        text = " ".join(text for heading, text in texts[name].items() if heading != "Does")
        assert ("DENY" in text) == (kind is FenceKind.ACL and name is StepName.FENCE)
        assert ("lifts the fence" in text) == (kind is not FenceKind.WATCH and name is not StepName.FENCE)


def test_a_failback_hands_groups_over_to_offset_sync_and_other_modes_take_them_from_it(scene):
    assert "offset sync from east to west includes the groups again" in page_of(scene, Mode.FAILBACK)
    assert "offset sync skips `app` from now on" in page_of(scene, Mode.PLANNED)


def test_the_point_of_no_return_stands_before_the_step_that_writes(scene):
    before, _, after = page_of(scene).partition("> **Point of no return.**")
    assert ("write\n" in before, re.search(r"### \d+\. (\w+)", after)[1]) == (False, "write")


def test_the_offsets_by_hand_are_those_that_would_be_written(scene):
    scene.commits("app", "east.orders", 5, cluster=scene.target)
    lines = page_of(scene).splitlines()
    at = lines.index("cat > offsets-1.csv <<'END'")
    (plan,) = saved_by(scene, Mode.PLANNED).plan.groups
    wanted = {place: commit.offset for place, commit in plan.to_write().items()}
    assert parse_reset_csv(lines[at + 1 : lines.index("END", at)]) == wanted
    assert lines[lines.index("# cat > before-1.csv <<'END'") + 1] == "# east.orders,0,5"
    assert any(line.endswith("--delete-offsets --group app --topic east.orders:1") for line in lines)


def of_kind(scene, kind):
    """The commands that write and read back a group of this kind, without those that make files."""
    plan = saved_by(scene, Mode.PLANNED).plan
    hands = Hands(replace(plan, groups=tuple(replace(group, kind=kind) for group in plan.groups)), *PLACES)
    lines = [line.removeprefix("# ") for line in hands.commands(StepName.WRITE)]
    return [line for line in lines if line.startswith("kafka-")], hands.commands(StepName.READ_BACK)


def test_a_share_group_has_kafkas_tool_for_share_groups_which_deletes_positions_by_whole_topics(scene):
    scene.commits("app", "east.orders", 5, cluster=scene.target)
    (moves, deletes, restores), (read_back,) = of_kind(scene, GroupKind.SHARE)
    assert {line.split()[0] for line in (moves, deletes, restores, read_back)} == {"kafka-share-groups.sh"}
    assert deletes.endswith("--delete-offsets --group app --topic east.orders")
    assert restores.endswith("--from-file before-1.csv --execute")


def test_no_command_of_a_runbook_resets_a_streams_application_with_the_tool_that_deletes_its_topics(scene):
    written, (read_back,) = of_kind(scene, GroupKind.STREAMS)
    assert {line.split()[0] for line in written} == {"kafka-consumer-groups.sh"}
    assert [line.split()[0] for line in read_back.split(" || ")] == [
        "kafka-streams-groups.sh",
        "kafka-consumer-groups.sh",  # until its members join
    ]


def test_an_offset_that_is_known_after_the_drain_is_named_as_missing_from_the_file(scene):
    scene.mirrored("orders", 0, [(0, 0, 10)], 11)
    page = page_of(scene)
    assert "# offsets-1.csv lacks east.orders-0: add its line" in page
    assert "\neast.orders,1,10\nEND\n" in page


def test_an_emergency_whose_bound_nobody_knows_has_a_page_that_says_so(scene):
    saved = saved_by(scene, Mode.EMERGENCY)
    (plan,) = saved.plan.groups
    verdicts = tuple(
        replace(one, answer=one.answer and Bounded(one.answer.offset, UNKNOWN)) for one in plan.verdicts
    )
    risks = {place: replace(risk, reread=UNKNOWN) for place, risk in saved.plan.risks.items()}
    saved = replace(saved, plan=replace(saved.plan, groups=(replace(plan, verdicts=verdicts),), risks=risks))
    page = render(runbook_of(saved, scene.settings, "my.properties", kept=None))
    assert re.search(r"^- Records read again: .*the most is unknown$", page, re.MULTILINE)


def test_of_a_group_that_a_guard_forbids_no_file_is_written(scene):
    scene.commits("app", "east.orders", 5, 99, cluster=scene.target)
    page = page_of(scene)
    assert "--reset-offsets" not in page
    assert "# no file for group app: it cannot move now; the table above has the reason\n" in page


def test_a_line_of_the_table_for_each_group_and_partition(scene):
    assert "| `app` | `orders-0` | 12 | `east.orders-0` |  | 11 | exact |\n" in page_of(scene)


def test_a_failback_is_written_to_the_source_and_read_from_the_target(scene):
    page = page_of(scene, Mode.FAILBACK)
    reset = [line for line in page.splitlines() if line.startswith("kafka-") and "--reset-offsets" in line]
    assert page.partition("\n")[0] == "# Failback: west -> east"
    assert [("east-1:9092" in line) for line in reset] == [True]
    assert "\norders,0,15\n" in page


def test_in_an_emergency_no_command_goes_to_the_source(scene):
    steps = page_of(scene, Mode.EMERGENCY).partition("## Steps")[2]
    assert "--bootstrap-server east-1:9092" not in steps
    assert "mmtool status" not in steps  # it asks the source


def test_what_an_emergency_costs_is_told_and_has_to_be_accepted(scene):
    scene.mirrored("orders", 0, [(0, 0, 10), (11, 10, 10)], 21, source_end=1_021)
    page = page_of(scene, Mode.EMERGENCY)
    assert "- Records lost: at most 1,000 records\n" in page
    assert "--unknown leave --accept-data-loss --execute -c 'my file.properties'\n" in page


def test_state_that_may_be_lost_has_to_be_accepted_though_no_record_is(scene):
    saved = saved_by(scene, Mode.EMERGENCY)
    lag = StateLag(StateTopic("app", "app-counts-changelog", 1), Loss(3, 3), 0.0, 0.0)
    pages = [
        render(runbook_of(one, scene.settings, "mm.properties", kept=None))
        for one in (saved, replace(saved, plan=replace(saved.plan, lags=(lag,))))
    ]
    assert [("--accept-data-loss --execute" in page) for page in pages] == [False, True]


def test_a_kept_plan_is_what_the_page_executes(scene, tmp_path):
    page = page_of(scene, kept=tmp_path / "plan.json")
    assert f"mmtool failover planned --plan {tmp_path}/plan.json --execute -c 'my file.properties'\n" in page


def test_a_kept_plan_keeps_its_operations_id_and_one_that_is_planned_again_does_not(scene, tmp_path):
    kept, again = page_of(scene, kept=tmp_path / "plan.json"), page_of(scene)
    ids = r"\d{8}T\d{6}Z-\w{6}"
    assert (bool(re.search(ids, kept)), "OPERATION_ID" in kept) == (True, False)
    assert (bool(re.search(ids, again)), "OPERATION_ID" in again) == (False, True)
    assert "mmtool failover list -s east -t west -c 'my file.properties'" in again


def test_the_steps_of_a_failback_name_the_topics_that_its_flow_mirrors_and_no_others(scene):
    steps = page_of(scene, Mode.FAILBACK).partition("## Steps")[2]
    held = steps.partition("mark_failed_over")[2].partition("### ")[0]
    assert "no longer mirrors `orders`:" in held
    assert "--topic east.orders\n" in held
    assert "--topic-partitions orders:0 --time latest" in steps.partition(". drain\n")[2].partition("### ")[0]
    assert "east-1:9092" in steps.partition(". drain\n")[2].partition("### ")[0]
    drained_back = steps.partition(". drain_back\n")[2].partition("### ")[0]
    assert "mmtool status -s west -t east " in drained_back
    assert "--topic-partitions orders:0 --time latest" in drained_back


def test_a_failback_that_releases_no_topic_does_not_say_that_topics_are_mirrored_again(scene):
    released = page_of(scene, Mode.FAILBACK).partition(". release_topics\n")[2].partition("### ")[0]
    assert "- **Done when**: No topic is released: other groups read `orders` on west" in released
    assert "kafka-acls" not in released


@pytest.mark.parametrize("kind", [FenceKind.ACL, FenceKind.HOOK, FenceKind.WATCH])
def test_behind_a_fence_the_drain_reaches_the_ends_that_were_watched(scene, kind):
    texts = fenced(scene, kind)
    assert "when step watch_ends ended" in texts[StepName.DRAIN]["Done when"]
    assert "exit code 7" in texts[StepName.REPORT]["Stop when"]


def test_what_forbids_the_plan_stands_at_the_top(scene):
    scene.commits("app", "orders", 12, 99)
    scene.source.add_topic("orders", "id-orders", 21, 10)
    assert "- [ ] **Not executable until this is fixed**: group app, orders-1" in page_of(scene)


@given(saved_plans())
def test_any_plan_can_be_a_page_with_straight_columns(saved):
    page = render(Runbook(saved, *PLACES, "mm2.properties", ("--plan", "plan.json")))
    table = page.partition("## Offsets of each group")[2].partition("## Execute")[0]
    rows = [line for line in table.splitlines() if line]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}
    assert len(rows) == 2 + sum(len(plan.verdicts) for plan in saved.plan.groups)
    assert page.count("\n### ") == len(saved.plan.steps)


@given(saved_plans(), names)
def test_no_name_of_a_plan_breaks_a_line_of_its_page_or_starts_markup(saved, name):
    page = page_for(saved, name)
    assert sent(page) == []
    prose = re.sub(r"```sh\n.*?\n```", "", page, flags=re.DOTALL)
    outside = re.sub(r"(`+) ?(?:(?!`).)+?.*? ?(?<!`)\1(?!`)", "", prose)
    assert "<img" not in outside
    for block in re.findall(r"```sh\n(.*?)\n```", page, re.DOTALL):
        for line in block.splitlines():
            assert re.match(r"mmtool |kafka-|# |cat > |[\w.]+,\d+,\d+$|END$", line), line


@given(saved_plans(), names)
def test_a_page_selects_its_group_by_words_that_a_shell_reads_as_its_name(saved, name):
    (line,) = re.findall(r"^mmtool failover .* (?:-g|--groups) .*$", page_for(saved, name), re.MULTILINE)
    ran = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], check=True, capture_output=True)
    assert ran.stdout.decode().split("\0")[3:9] == ["-s", "east", "-t", "west", *group_options([name])]


@given(saved_plans())
def test_a_bar_in_a_name_is_escaped_in_tables_alone(saved):
    page = page_for(saved, "a|b")
    assert "-g 'a|b'" in page
    assert {line.startswith("|") for line in page.splitlines() if r"a\|b" in line} == {True}


def page_for(saved, name):
    """The page of a plan for one group of that name, with a guard, a warning and a step that name it."""
    groups = tuple(replace(plan, group=name) for plan in saved.plan.groups[:1]) or (
        GroupPlan(name, Direction.FORWARD, ()),
    )
    plan = replace(saved.plan, groups=groups, guards=(Guard(name, name),))
    saved = replace(saved, plan=plan.with_steps(), warnings=(name,), options={})
    east, west = PLACES
    meant = ("-s", "east", "-t", "west", *group_options([name]))
    return render(Runbook(saved, east, west, "mm2.properties", meant))
