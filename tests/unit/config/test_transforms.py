"""Transforms of the file: what would let a record through that should not be is an error, never a warning."""

import pytest

from mmtool.config.report import InvalidConfigError
from mmtool.plan.flow.transforms import Condition, On, Step

HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
FILTER = "A->B.transforms = f\nA->B.transforms.f.type = Filter\n"
TOMBSTONE = "A->B.transforms.f.predicate = t\nA->B.predicates.t.type = RecordIsTombstone\n"


def test_filters_are_read_with_their_conditions(load):
    text = (
        f"{FILTER}{TOMBSTONE}A->B.transforms.f.negate = TRUE\n"
        "A->B.transforms.d.type = org.apache.kafka.connect.transforms.DropHeaders\n"
    )
    settings = load(
        text.replace("transforms = f", "transforms = f, d") + "A->B.transforms.d.headers = a, b\n", head=HEAD
    )
    (flow,) = settings.flows
    assert flow.transforms.steps == (
        Step(None, Condition(On.TOMBSTONE, "", negated=True)),
        Step(("a", "b")),
    )


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (f"{FILTER}{TOMBSTONE}A->B.transforms.f.negate = yes\n", "true or false"),
        (f"{FILTER}A->B.transforms.f.predicates = t\n", "is no setting of this class; it has type, predicate"),
        (f"{FILTER}{TOMBSTONE}A->B.predicates.t.name = x\n", "is no setting of this class; it has type"),
        (f"{FILTER}A->B.transforms.f.predicate = other\n", "predicates.other.type is missing"),
        ("A->B.transforms = f\n", "transforms.f.type is missing"),
        ("A->B.transforms = f\nA->B.transforms.f.type = RegexRouter\n", "mmtool.topic.rename.format"),
        ("A->B.transforms = f\nA->B.transforms.f.type = DropHeaders\n", "transforms.f.headers is missing"),
        ("mmtool.transforms = masks:change\nmmtool.transform.topics = a\n", "has no mmtool.transform, which names"),
        ("mmtool.transform.paths = email\n", "records would be copied as they are"),
        ("mmtool.transform = mask_json\n", "package.module:function"),
    ],
)  # fmt: skip
def test_a_fault_is_an_error_that_names_it(load, lines, says):
    with pytest.raises(InvalidConfigError) as refused:
        load(lines, head=HEAD)
    assert says in str(refused.value)
