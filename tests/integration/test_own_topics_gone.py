"""mmtool's own topics are deleted under a running flow, by somebody who took them for leftovers.

The flow runs from ``target`` to ``source``, so that no other test's state is lost.
"""

import os
import time

import pytest

from kit.exactness import wrong_translations
from kit.lab_admin import delete_topic
from kit.load import Load, produce
from kit.mirror_flow import flow_of
from kit.processes import MmtoolProcess, run_mmtool
from mmtool.lab.topics import create_topic, read_topic

pytestmark = pytest.mark.kafka

FROM, TO = "target", "source"
RECORDS, MORE = 200, 50
PATIENCE_SECONDS = 60.0
ENDS_SECONDS = 60.0
"""From the deletion on; a topic counts as deleted once no broker has listed it for ten seconds."""


@pytest.mark.parametrize(
    ("topic", "code", "paused"),
    [
        ("mmtool-control", "control_lost", True),
        pytest.param("mmtool-offset-runs", "runs_lost", False, marks=pytest.mark.chaos),
    ],
)
def test_a_flow_that_loses_them_ends_and_says_so_and_goes_on_from_both_logs_without_a_record_twice(
    fleet, tmp_path, measured, topic, code, paused
):
    up, down = fleet[FROM], fleet[TO]
    name = f"own-{os.getpid()}-{code.replace('_', '-')}"
    create_topic(up.bootstrap, name)
    produce(up.bootstrap, Load(name, RECORDS, 1, 100))
    flow = flow_of(fleet, tmp_path, FROM, TO, name)
    config, remote = ("-c", str(tmp_path / f"{FROM}-{TO}.properties")), flow.remote_topic(name)

    def mmtool(*words):
        return run_mmtool(tmp_path / f"run-{time.monotonic_ns()}", *words, *config)

    with MmtoolProcess(tmp_path / "running", "replicate", "--every", "1", *config) as process:
        process.wait_line(r"records 200 .*caught_up", PATIENCE_SECONDS)
        delete_topic(down.bootstrap, f"{topic}.{FROM}.internal")
        deleted_at = time.monotonic()
        produce(up.bootstrap, Load(name, MORE, 1, 100, first_sequence=RECORDS))
        ended = process.wait(ENDS_SECONDS)
    measured(f"{topic} deleted: replicate ended {time.monotonic() - deleted_at:.1f} s later")
    assert ended.code == 3, ended.stderr
    again = mmtool("replicate", "--until-caught-up", "-o", "json")
    assert (again.code, code in again.stdout) == (3, True), again.stderr

    rebuilt = mmtool("flow", "rebuild", "--execute", "--yes")
    assert rebuilt.code == 0, rebuilt.stderr
    if paused:
        held = mmtool("replicate", "--until-caught-up")
        assert "the flow's control topic was lost" in held.stdout + held.stderr
        assert mmtool("flow", "resume").code == 0
    last = mmtool("replicate", "--until-caught-up")
    assert last.code == 0, last.stderr
    both = [
        [record.value for record in read_topic(where.bootstrap, of)]
        for where, of in ((up, name), (down, remote))
    ]
    assert (len(both[0]), both[1]) == (RECORDS + MORE, both[0])
    asked, wrong = wrong_translations(flow, up, down, [name])
    assert (asked > RECORDS, wrong[:5]) == (True, [])
