"""Every refusal names the cluster that it is about, in both directions, and none calls it source or target."""

import pytest

from mmtool.translation.answers import FORWARD, Reason, Sides


@pytest.mark.parametrize("reason", list(Reason))
@pytest.mark.parametrize("is_alone", [False, True])
@pytest.mark.parametrize(("is_reverse", "is_emergency"), [(False, False), (True, False), (False, True)])
def test_no_sentence_of_known_clusters_says_source_or_target(reason, is_reverse, is_emergency, is_alone):
    said = reason.said_of(Sides("us-east", "eu-west", is_reverse, is_emergency), is_alone=is_alone)
    assert "the source" not in said
    assert "the target" not in said
    assert "{" not in said


@pytest.mark.parametrize("reason", list(Reason))
def test_the_reference_has_the_sentence_of_a_translation_from_source_to_target(reason):
    assert reason.sentence == reason.said_of(FORWARD)


@pytest.mark.parametrize("reason", sorted(set(Reason) - {Reason.UNREADABLE_STATE}))
@pytest.mark.parametrize("is_alone", [False, True])
def test_no_remedy_of_an_emergency_needs_the_source(reason, is_alone):
    said = reason.said_of(Sides("east", "west", is_emergency=True), is_alone=is_alone)
    assert [
        command for command in ("translate-offsets", "mmtool replicate", "groups audit") if command in said
    ] == []
    assert "offset on east with" not in said
    assert "partition on east with" not in said
