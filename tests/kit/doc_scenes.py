"""The clusters in memory that the pages of the documentation type their commands on.

One shop everywhere: ``east->west`` mirrors ``orders``, which the groups ``billing`` and ``shipping`` read.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kit.clusters import FakeFlowWatch
from kit.doc_blocks import files_of
from kit.maps import position_of
from kit.operations import KilledError
from kit.scene import Scene
from kit.smoke import SmokeScene
from kit.there_and_back import ThereAndBack
from mmtool.errors import UnreachableError
from mmtool.plan.flow.positions import PositionTrails
from mmtool.plan.flow.status import FlowMember
from mmtool.plan.groups.facts import Member
from mmtool.plan.records.documents import CommitRatesRecord, FlowRecord, OwnerRecord, State
from mmtool.translation.types import ClusterId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable

GROUPS = ("billing", "shipping")
_AGE_SECONDS = 2_900
"""Of checkpoints: so old that a busy machine adds nothing that shows."""
_EXECUTED = "mmtool failover planned -c mm2.properties -g billing -g shipping --execute"


@dataclass(frozen=True, slots=True)
class Documented:
    """What a page's commands find.

    Attributes:
        make: The clusters, with their properties file in a folder.
        before: What was typed before.
    """

    make: Callable[[Path], Scene]
    before: tuple[str, ...] = ()


class Shop(Scene):
    """``orders`` is mirrored up to its ends, with transaction markers left out; ``audit-log`` is not mirrored."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.state: FakeFlowWatch = FakeFlowWatch()
        self.marks.state = self.state
        self.source.cluster_id = ClusterId("JMyv1VHrRcOGJIPvUo7XCA")
        self.target.cluster_id = ClusterId("4474l0HSRV-CwwbV0kYTTw")

    def killed_while_writing(self, group: str) -> None:
        """The next process dies before it writes this group's offsets."""
        alter = self.target.groups.alter

        def die(of: str, *rest: object) -> object:
            if of != group:
                return alter(of, *rest)  # type: ignore[arg-type]
            self.target.groups.alter = alter  # type: ignore[method-assign]
            raise KilledError

        self.target.groups.alter = die  # type: ignore[assignment, method-assign]


def shop(directory: Path) -> Shop:
    """Both clusters answer, and nobody uses the groups."""
    made = Shop(directory)
    made.has("orders", 1001, 1000, 500)
    made.mirrored("orders", 0, [(0, 0, 400), (401, 400, 600)], 1001)
    made.mirrored("orders", 1, [(0, 0, 1000)], 1000)
    made.mirrored("orders", 2, [(0, 0, 500)], 500)
    made.source.add_topic("audit-log", "id-audit-log", 5)
    made.commits("billing", "orders", 701, 1000)
    made.commits("billing", "audit-log", 5)
    made.commits("billing", "east.orders", 700, 1000, cluster=made.target)
    made.commits("shipping", "orders", 1001, 990, 500)
    made.commits("console-consumer-42", "orders", 3, 3, 3)
    _checkpoint(directory / "checkpoints" / "billing")
    (directory / "positions.csv").write_text("orders,0,701\norders,1,1000\norders,2,0\n", encoding="utf-8")
    return made


def source_lost(directory: Path) -> Shop:
    """Of 100 records of ``orders`` 60 were mirrored before east was lost; ``billing`` had read 50, ``shipping`` 60."""
    made = Shop(directory)
    made.has("orders", 100)
    made.mirrored("orders", 0, [(0, 0, 60)], 60, source_end=100, seen_ms=_ago_ms(3))
    for group, read in zip(GROUPS, (50, 60), strict=True):
        made.told(group, "orders", (read, read), at_ms=_ago_ms(_AGE_SECONDS))
        _commits_at(made, group, 2)
    made.source.go_away(UnreachableError("cluster east does not answer at east-1:9092: connection refused"))
    return made


def killed(directory: Path) -> Shop:
    """A planned failover is going to be killed between its two groups."""
    made = shop(directory)
    made.killed_while_writing("shipping")
    return made


def started_too_early(directory: Path) -> Shop:
    """A consumer of ``billing`` is started on the target while the failover mirrors the last records."""
    made = shop(directory)
    made.source.logs[TopicPartition("orders", 1)] = made.source.logs[TopicPartition("orders", 0)]
    drain = made.drain

    def start(*how: object) -> None:
        drain(*how)  # type: ignore[arg-type]
        made.target.groups.members["billing"] = (Member("billing-1", "/10.0.0.7"),)

    made.drain = start  # type: ignore[method-assign, assignment]
    return made


def fenced(directory: Path) -> Shop:
    """Both clusters answer, and a rule lets a user write ``orders``."""
    made = shop(directory)
    made.may_write("alice", "orders")
    return made


def home_again(directory: Path) -> ThereAndBack:
    """``kit.there_and_back``, for the shop's groups."""
    return ThereAndBack(directory, groups=GROUPS)


def smoke(directory: Path) -> SmokeScene:
    """A flow that mmtool runs, and that carries the canary."""
    made = SmokeScene(directory)
    made.source.cluster_id, made.target.cluster_id = (
        ClusterId("JMyv1VHrRcOGJIPvUo7XCA"),
        ClusterId("4474l0HSRV-CwwbV0kYTTw"),
    )
    made.watch.view.flow = _flow_of(made)
    made.carries_canary()
    return made


def status(directory: Path) -> Shop:
    """The shop's flow runs, one partition a little behind; a consumer of ``billing`` was started on west too early."""
    made = shop(directory)
    made.mirrored("orders", 1, [(0, 0, 960)], 960, source_end=1000)
    made.state.view.flow = _flow_of(made)
    made.state.marked(OwnerRecord("me", "host-1", 4711, since_ms=_ago_ms(7_500)))
    made.state.present = (FlowMember("mmtool/0.1-owner-host-1-pid-4711", "/10.0.0.1", holds=True),)
    made.state.view.trails = PositionTrails()
    for partition, position in enumerate((1001, 960, 500)):
        for seconds in (20, 10, 0):
            _report(made, partition, position, seconds)
    made.state.times["orders", 1, 960] = _ago_ms(1)
    made.state.groups = 2
    for group, read, rate in zip(GROUPS, ((701, 960), (1001, 950, 500)), (10**6, 0), strict=True):
        made.told(group, "orders", *((offset, offset) for offset in read), at_ms=_ago_ms(4))
        _commits_at(made, group, rate)
    made.target.groups.members["billing"] = (Member("billing-1", "/10.0.0.7"),)
    (directory / "go-on").write_text("#!/bin/sh\n", encoding="utf-8")
    (directory / "go-on").chmod(0o755)
    return made


def importable(directory: Path) -> Shop:
    """A Strimzi resource, as the page about it shows it, its secret, and two connectors; no properties file."""
    made = shop(directory)
    (directory / "mm2.properties").unlink()
    page = Path(__file__).parents[2] / "docs" / "how-to" / "from-strimzi-or-connect.md"
    for name, text in files_of(page).items():
        (directory / name).write_text(text, encoding="utf-8")
    (directory / "connectors.json").write_text(json.dumps(_connectors()), encoding="utf-8")
    secret = directory / "secrets" / "mm2-user" / "password"
    secret.parent.mkdir(parents=True)
    secret.write_text("secret", encoding="utf-8")
    secret.chmod(0o600)
    return made


def _connectors() -> dict[str, object]:
    """The answer to ``GET /connectors?expand=info``."""
    common = {
        "source.cluster.alias": "east",
        "target.cluster.alias": "west",
        "source.cluster.bootstrap.servers": "east:9092",
        "target.cluster.bootstrap.servers": "west:9092",
        "tasks.max": "4",
    }
    configs = {
        "dr-source": {"connector.class": "MirrorSourceConnector", "topics": "orders"},
        "dr-checkpoint": {"connector.class": "MirrorCheckpointConnector", "topics": "orders|payments"},
    }
    return {name: {"info": {"name": name, "config": common | config}} for name, config in configs.items()}


SCENES = {
    "importable": Documented(importable),
    "shop": Documented(shop),
    "source_lost": Documented(source_lost),
    "killed": Documented(killed, (_EXECUTED,)),
    "started_too_early": Documented(started_too_early),
    "home_again": Documented(home_again),
    "smoke": Documented(smoke, ("mmtool smoke -c mm2.properties",)),
    "status": Documented(status),
    "fenced": Documented(fenced),
    "logged": Documented(shop, (f"{_EXECUTED} --log-format json 2> mmtool.jsonl",)),
    "exported": Documented(
        home_again, ("mmtool failover failback -c mm2.properties -s east -t west -g billing --execute",)
    ),
    "signed": Documented(
        shop,
        (
            "openssl genpkey -algorithm ed25519 -aes256 -out ann.pem",
            "openssl pkey -in ann.pem -pubout -out ann.pub",
            _EXECUTED,
        ),
    ),
}
"""By the name in the comment before a block."""


def _ago_ms(seconds: float) -> int:
    return int((time.time() - seconds) * 1000)


def _flow_of(scene: Scene) -> FlowRecord:
    return FlowRecord(scene.source.cluster_id, scene.target.cluster_id, "east", "west", 32)


def _commits_at(scene: Shop, group: str, rate: int) -> None:
    """The group commits so many offsets in 1,000 seconds."""
    told = CommitRatesRecord(group, {"orders": dict.fromkeys("012", rate)})
    scene.state.view.apply(told.key, told.encode(), 0)


def _report(scene: Shop, partition: int, position: int, seconds_ago: float) -> None:
    """A worker has told so long ago where the partition stood, 100 records a second before ``position``."""
    end = scene.source.logs[TopicPartition("orders", partition)].log_end
    then, at_ms = max(0, position - int(20 * seconds_ago)), _ago_ms(seconds_ago)
    state = State.CAUGHT_UP if position == end else State.RUNNING
    told = replace(
        position_of(TopicPartition("orders", partition), scene.source.ids["orders"], then, end, state),
        owner="me",
        records=then,
        mirrored_bytes=1_000 * then,
        reason="",
        observed_ms=at_ms,
        behind_since_ms=0 if position == end else _ago_ms(1),
    )
    scene.state.view.apply(told.key, told.encode(), 0)
    if scene.state.view.trails is not None:
        scene.state.view.trails.note(told.key, told.encode(), at_ms)


def _checkpoint(directory: Path) -> None:
    """A Spark query has finished one batch."""
    for folder, text in (
        ("offsets", 'v1\n{}\n{"orders": {"0": 701, "1": 1000, "2": 0}}'),
        ("commits", "v1\n{}"),
    ):
        (directory / folder).mkdir(parents=True)
        (directory / folder / "9").write_text(text, encoding="utf-8")
