"""How the file calls MirrorMaker 2's workers and the topic of their positions, in the scopes that MM2 itself reads."""

import pytest

from mmtool.config.load import read_file

FLOW = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


@pytest.mark.parametrize(
    ("lines", "group", "topic"),
    [
        ("", None, None),
        ("B.group.id = workers\nB.offset.storage.topic = offsets", "workers", "offsets"),
        ("B.offset.storage.topic = offsets\noffset.storage.topic = of-all", None, "of-all"),
        ("group.id = all\nA->B.group.id = flow\nA.group.id = source", None, None),
        ("A->B.offset.storage.topic = flow\nA.offset.storage.topic = source", None, None),
        ("B.group.id =", None, None),
    ],
)
def test_the_workers_names_are_the_target_s_and_a_global_offsets_topic_comes_first(load, lines, group, topic):
    (flow,) = load(lines).flows
    assert (flow.mm2_group, flow.mm2_offsets_topic) == (group, topic)


def test_a_key_by_which_a_running_mm2_is_found_is_not_called_needless(tmp_path):
    path = tmp_path / "mm2.properties"
    named = "B.group.id = workers\noffset.storage.topic = offsets\ngroup.id = all\ntasks.max = 4"
    path.write_text(FLOW + named)
    (line,) = [found.message for found in read_file(path, {}).findings if "not needed" in found.message]
    assert line.endswith(": group.id, tasks.max")
