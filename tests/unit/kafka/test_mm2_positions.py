"""How far MirrorMaker 2 says it is, and what it has taken back."""

import json
from types import SimpleNamespace

import pytest

from mmtool.config import ClusterSettings
from mmtool.config.aliases import workers_groups
from mmtool.errors import NotAuthorisedError
from mmtool.kafka import mirror_maker
from mmtool.kafka.mirror_maker import read_positions
from mmtool.kafka.state.log_reader import LogRecord
from mmtool.translation.names import TopicAliases
from mmtool.translation.types import TopicPartition

WEST = ClusterSettings(alias="west", bootstrap_servers="nowhere:1")
PLACE = TopicPartition("orders", 0)
NAMED = SimpleNamespace(
    source=SimpleNamespace(alias="east"),
    target=WEST,
    mm2_group="workers",
    mm2_offsets_topic="own-offsets",
    topic_aliases=TopicAliases("east", "west"),
)
UNNAMED = SimpleNamespace(**{**vars(NAMED), "mm2_group": None, "mm2_offsets_topic": None})


def position(at, offset, connector="MirrorSourceConnector"):
    place = {"cluster": "east", "partition": 0, "topic": "orders"}
    key = json.dumps([connector, place]).encode()
    return LogRecord(0, at, key, json.dumps({"offset": offset}).encode(), 0)


@pytest.fixture
def logs(monkeypatch):
    """What each topic of the target holds; an error is raised."""
    found = {}

    def read_log(_, topic, *, committed=False):
        answer = found.get(topic, [])
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(mirror_maker, "read_log", read_log)
    return found


def test_positions_are_looked_for_under_the_file_s_own_name_and_mm2_s_and_strimzi_s(logs):
    logs |= {
        "own-offsets": [position(0, 1)],
        "mm2-offsets.east.internal": [position(0, 2)],
        "mirrormaker2-cluster-offsets": [position(0, 3, "east->west.MirrorSourceConnector")],
        "another": [position(0, 4)],
    }
    own, dedicated, strimzi = {PLACE: 1}, {PLACE: 2}, {PLACE: 3}
    usual = {"mm2-offsets.east.internal": dedicated, "mirrormaker2-cluster-offsets": strimzi}
    assert list(read_positions(NAMED).items()) == list(({"own-offsets": own} | usual).items())
    assert list(read_positions(UNNAMED).items()) == list(usual.items())


def test_where_an_override_names_topics_the_keys_hold_it_and_the_topic_the_file_s_alias(logs):
    logs["mm2-offsets.main.internal"] = [position(0, 2), position(0, 9, "main->west.MirrorSourceConnector")]
    overridden = SimpleNamespace(**{**vars(UNNAMED), "source": SimpleNamespace(alias="main")})
    assert read_positions(overridden) == {"mm2-offsets.main.internal": {PLACE: 9}}


def test_a_topic_that_is_only_guessed_and_may_not_be_read_keeps_no_take_over_back(logs):
    logs |= {"own-offsets": [position(0, 1)], "mirrormaker2-cluster-offsets": NotAuthorisedError("denied")}
    assert read_positions(NAMED) == {"own-offsets": {PLACE: 1}}
    logs["own-offsets"] = NotAuthorisedError("denied")
    with pytest.raises(NotAuthorisedError):
        read_positions(NAMED)


def test_mm2_s_workers_are_looked_for_under_the_file_s_own_group_and_the_usual_ones():
    usual = ["east-mm2", "west-mm2", "mirrormaker2-cluster"]
    assert (workers_groups(NAMED), workers_groups(UNNAMED)) == (["workers", *usual], usual)


def test_a_position_of_a_transaction_that_was_aborted_is_none(monkeypatch):
    """With exactly-once MM2 was killed in the middle of one: none of its records is on the target."""
    stands, aborted = position(0, 40), position(2, 90)

    def read_log(_, __, *, committed=False):
        return [stands] if committed else [stands, aborted]

    monkeypatch.setattr(mirror_maker, "read_log", read_log)
    assert read_positions(UNNAMED)["mm2-offsets.east.internal"] == {PLACE: 40}
