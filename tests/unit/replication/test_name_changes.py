"""A flow whose mirrored topics would get other names is refused before anything is copied."""

from types import SimpleNamespace

import pytest

from mmtool.config import load_settings
from mmtool.errors import RefusedError
from mmtool.replication.ownership.checks import refuse_changed_names

HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"


@pytest.fixture
def flow(tmp_path):
    def of(more):
        path = tmp_path / "mm2.properties"
        path.write_text(HEAD + more)
        (flow,) = load_settings(path, {}).flows
        return flow

    return of


def on_record(**names):
    return [SimpleNamespace(topic=t, target_topic=r) for t, r in names.items()]


def test_the_message_has_both_names_and_the_line_that_keeps_the_old_ones(flow):
    blank = flow("replication.policy.separator =\nsource.cluster.alias =\ntarget.cluster.alias =\n")
    with pytest.raises(RefusedError) as caught:
        refuse_changed_names(blank, on_record(orders="Aorders"), ())
    assert "orders is mirrored to Aorders and would now be called orders" in str(caught.value)
    assert "A->B.source.cluster.alias = A" in caught.value.remedy
    assert "`mmtool flow forget -c FILE -s A -t B --topic orders --execute`, then set" in caught.value.remedy
    kept = flow("replication.policy.separator =\nsource.cluster.alias =\nA->B.source.cluster.alias = A\n")
    refuse_changed_names(kept, on_record(orders="Aorders"), ())


def test_several_changed_names_are_set_apart(flow):
    names = {name: f"A.{name}" for name in ("a", "b", "c", "d", "e")}
    with pytest.raises(RefusedError) as caught:
        refuse_changed_names(flow("source.cluster.alias = site\n"), on_record(**names), ())
    said = "; ".join(f"{n} is mirrored to A.{n} and would now be called site.{n}" for n in ("a", "b", "c"))
    assert f"{said}; and 2 more topics" in caught.value.message


def test_another_separator_is_refused_without_a_line_that_would_not_help(flow):
    with pytest.raises(RefusedError) as caught:
        refuse_changed_names(flow("replication.policy.separator = _\n"), on_record(orders="A.orders"), ())
    assert "source.cluster.alias" not in caught.value.remedy


def test_topics_that_keep_their_names_or_are_not_mirrored_do_not_count(flow):
    named = flow("source.cluster.alias = site\ntopics = orders, old\n")
    refuse_changed_names(named, on_record(orders="site.orders", other="A.other", old="A.old"), {"old"})


def test_the_line_that_keeps_names_is_found_for_an_alias_with_a_slash_too(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text(HEAD.replace("A", "eu/1") + "source.cluster.alias = site\n")
    (renamed,) = load_settings(path, {}).flows
    with pytest.raises(RefusedError) as caught:
        refuse_changed_names(renamed, on_record(orders="eu-1.orders"), ())
    assert "eu/1->B.source.cluster.alias = eu-1" in caught.value.remedy
