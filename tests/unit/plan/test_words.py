"""Parts of sentences."""

import pytest

from mmtool.plan.words import counted, few, then


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, ""), (1, "0"), (3, "0, 1, 2"), (4, "0, 1, 2 and 1 more"), (9, "0, 1, 2 and 6 more")],
)
def test_the_first_are_named_and_the_others_counted(count, said):
    assert few(range(count), 3) == said


@pytest.mark.parametrize(("count", "said"), [(0, "0 rows"), (1, "1 row"), (1200, "1,200 rows")])
def test_one_thing_is_not_called_several(count, said):
    assert counted(count, "row") == said


def test_a_noun_that_ends_in_s_takes_es():
    assert counted(2, "bootstrap address") == "2 bootstrap addresses"


@pytest.mark.parametrize(
    ("remedy", "said"),
    [
        ("", "remove the cause, then resume"),
        ("grant it", "grant it; then resume"),
        ("grant it, then run the same command again", "grant it; then resume"),
        ("wait; then run the same command again: it reads the topics", "wait; then resume"),
        ("run the same command again", "resume"),
        ("run the same command again: it completes the rest", "resume"),
    ],
)
def test_of_two_commands_to_run_afterwards_the_caller_s_one_is_named(remedy, said):
    assert then(remedy, "resume") == said
