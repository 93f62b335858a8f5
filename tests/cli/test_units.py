"""``--unit`` as a script sees it, on clusters in memory."""

import json
import time

import pytest

from kit.scene import Scene
from mmtool.config import load_settings

UNITS = """\
mmtool.unit.shop.topics = orders
mmtool.unit.shop.groups = app, mail.*
"""


@pytest.fixture
def scene(tmp_path, wired):
    """``app`` reads orders and payments, ``mailer`` orders; ``ledger`` reads both and is of no unit."""
    made = Scene(tmp_path, UNITS)
    made.config.write_text(made.config.read_text().replace("orders.*", "orders, payments"))
    made.settings = load_settings(made.config, {}).flows[0]
    for topic in ("orders", "payments"):
        made.has(topic, 10)
        made.mirrored(topic, 0, [(0, 0, 10)], 10, source_end=10)
    for group, topics in {"app": 2, "mailer": 1, "ledger": 2}.items():
        for topic in ("orders", "payments")[:topics]:
            made.commits(group, topic, 5)
            made.told(group, topic, (5, 5), at_ms=int(time.time() * 1000))
    return wired(made)


@pytest.fixture
def run(mmtool, scene):
    return lambda *arguments: mmtool(*arguments, "-c", scene.config, "-o", "json")


@pytest.mark.parametrize("mode", ["planned", "emergency"])
def test_a_unit_is_a_selector_and_who_reads_across_its_border_is_warned_of(run, mode):
    ended = run("failover", mode, "--unit", "shop")
    document = json.loads(ended.stdout)
    assert (ended.code, [group["group"] for group in document["data"][0]["groups"]]) == (0, ["app", "mailer"])
    assert [w for w in document["warnings"] if "unit" in w] == [
        (
            "group app of unit shop also reads topics outside the unit (payments): its offsets in these topics move"
            " with it; group ledger, which also reads these topics, stays on east: to move it, add it to"
            " `mmtool.unit.shop.groups`"
        ),
        (
            "group ledger stays on east, and reads topics of unit shop (orders): to move it as well, add it to"
            " `mmtool.unit.shop.groups`"
        ),
    ]


@pytest.mark.parametrize(
    "command", [("failover", "planned"), ("failover", "emergency"), ("translate-offsets",)]
)
def test_an_unknown_unit_is_two_with_a_guess(run, command):
    ended = run(*command, "--unit", "shpo")
    (error,) = json.loads(ended.stdout)["errors"]
    assert (ended.code, "did you mean shop?" in error["message"]) == (2, True)


def test_translate_offsets_is_told_of_the_units_topics_alone(run):
    rows = json.loads(run("translate-offsets", "--unit", "shop").stdout)["data"]
    assert [(row["group"], row["topic"]) for row in rows] == [("app", "orders"), ("mailer", "orders")]
