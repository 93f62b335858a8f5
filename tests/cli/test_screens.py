"""Each screen as a person sees it: on terminals of 80 and 200 columns, with colour and without."""

import os
import re

import pytest
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from kit.consoles import InProcess
from kit.doc_blocks import OPERATION
from mmtool.commands.app import main
from mmtool.commands.doctor import _COLUMNS as DOCTOR
from mmtool.commands.verify import _COLUMNS as VERIFY
from mmtool.output import Result
from mmtool.output.layout import draw, fitted, layout

_FLOW = "-c mm2.properties -s east -t west"
_TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
_SECONDS = re.compile(r"\b\d\.\ds\b")
_RPO_SECONDS = re.compile(r" +[1-9]\.\d+(?=  (?:true|false))")
SCREENS = {
    "status_groups": ("status", "mmtool status -c mm2.properties --groups"),
    "groups_audit": ("shop", f"mmtool groups audit {_FLOW}"),
    "translate_offsets": ("shop", f"mmtool translate-offsets {_FLOW} -g billing -g shipping"),
    "planned_rehearsal": ("shop", f"mmtool failover planned {_FLOW} -g billing -g shipping"),
    "planned_refused": ("shop", f"mmtool failover planned {_FLOW} -g billing -g nobody"),
    "emergency_rehearsal": ("source_lost", f"mmtool failover emergency {_FLOW} -g billing -g shipping"),
    "failback_rehearsal": ("home_again", f"mmtool failover failback {_FLOW} -g billing"),
    "failover_list": ("killed", f"mmtool failover list {_FLOW}"),
    "failover_resume": ("killed", f"mmtool failover resume ID {_FLOW}"),
}
DRAWN = {
    "doctor": Result(
        "doctor",
        [
            {
                "check": "min_insync",
                "severity": "error",
                "subject": "orders on west",
                "message": "replication factor 1 is below min.insync.replicas 2: brokers refuse every record",
                "remedy": "set min.insync.replicas = 1 on it, or give it more replicas",
            },
            {
                "check": "retention",
                "severity": "warning",
                "subject": f"payments.{'settlement.' * 8}v2 on east",
                "message": "the oldest record that is not mirrored is deleted in 3h 20m",
                "remedy": "raise retention.ms until the flow has caught up",
            },
            {"check": "versions", "severity": "ok", "subject": "east, west", "message": "4.4.0, 4.4.0", "remedy": ""},
        ],
        DOCTOR,
    ),
    "verify": Result(
        "verify",
        [
            {
                "source": "east", "target": "west", "topic": "orders", "partition": partition, "verdict": verdict,
                "records_compared": 1_204_331, "missing": 0, "duplicated": 0, "reordered": 0,
                "mutated": int(verdict == "different"), "foreign": 0, "mapping": 0, "lag_records": 12, "reason": reason,
            }
            for partition, verdict, reason in (
                (
                    1,
                    "different",
                    "first difference: a record has another value (offset 150 on east, offset 150 on west)",
                ),
                (0, "identical", ""),
            )
        ],
        VERIFY,
    ),
}  # fmt: skip


class Screens(SingleFileSnapshotExtension):
    """One text file for each screen, to be looked at."""

    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.fixture
def screen(snapshot):
    return snapshot.use_extension(Screens)


@pytest.fixture
def console(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("mmtool.runtime.process.operator", lambda: "ann@host-1")
    monkeypatch.setattr("mmtool.insight.status._PUMPS_WRITE_SECONDS", 0.0)
    return InProcess(tmp_path, {}, main, {"~/.local/state": os.environ["XDG_STATE_HOME"]})


def settled(text):
    """Without what differs from run to run; everything keeps its width."""
    for pattern in (OPERATION, _TIME, _DIGEST, _SECONDS):
        text = pattern.sub(lambda found: re.sub(r"[\dTZa-f]", "x", found[0]), text)
    return _RPO_SECONDS.sub(lambda found: "x.xxx".rjust(len(found[0])), text)


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("color", [False, True], ids=["plain", "color"])
@pytest.mark.parametrize("name", SCREENS)
def test_a_command_shows_it_so(name, color, width, console, screen, monkeypatch):
    scene, line = SCREENS[name]
    console.begin(scene, lambda at, value: monkeypatch.setattr(f"mmtool.{at}", value))
    console.color = color
    console.run(console.meant(line), width)
    assert settled(console.printed) == screen


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("color", [False, True], ids=["plain", "color"])
@pytest.mark.parametrize("name", DRAWN)
def test_rows_that_only_real_clusters_have_are_drawn_so(name, color, width, screen):
    assert draw(fitted(layout(DRAWN[name]), width), columns=width, color=color) == screen
