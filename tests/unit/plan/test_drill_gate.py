"""The limits of a drill."""

import pytest

from mmtool.plan.failover.drill import Limits, failing, missed, shown_by

ID = "20261126-0000-abcd"


def row(rto=12.5, records=0, **groups):
    """The row of a drill; a group is the most that each of its partitions reads again, by group."""
    return {
        "operation_id": ID,
        "rto_seconds": rto,
        "reread_records": records,
        "groups": [
            {
                "group": f"mmtool.{name}.drill-{ID}",
                "partitions": [{"reread_max": number, "reason": ""} for number in numbers],
            }
            for name, numbers in groups.items()
        ],
    }


@pytest.mark.parametrize(
    "limits", [Limits(), Limits(12.5), Limits(None, 0), Limits(30, 0), Limits(30, 100)], ids=repr
)
def test_a_drill_within_its_limits_passes(limits):
    assert missed(row(app=[0, 0]), limits) == ""


def test_both_figures_are_said_whichever_limit_was_missed():
    assert missed(row(41.2, 12, app=[10], late=[2], calm=[0]), Limits(30, 20)) == (
        "RTO 41.2 s (limit 30 s); 12 records read again (limit 20): app 10, late 2"
    )
    assert missed(row(4.2, 12, app=[2], late=[10]), Limits(30, 0)) == (
        "RTO 4.2 s (limit 30 s); 12 records read again (limit 0): late 10, app 2"
    )


@pytest.mark.parametrize(
    ("limits", "options"),
    [(Limits(30, 20), ["--html"]), (Limits(60, 0), ["-o json"]), (Limits(30, 0), ["--html", "-o json"])],
)
def test_what_shows_the_missed_limit_is_named_and_nothing_else(limits, options):
    said = shown_by(row(41.2, 12, app=[12]), limits)
    assert [option for option in ("--html", "-o json") if option in said] == options
    assert said.count(f"`mmtool failover show {ID} -c FILE -") == len(options)


def test_a_limit_that_was_not_asked_for_is_not_named():
    assert missed(row(41.2, 12, app=[12]), Limits(30)) == (
        "RTO 41.2 s (limit 30 s); 12 records read again: app 12"
    )


def test_of_many_groups_the_worst_are_named():
    many = {f"app-{n}": [n] for n in range(10)}
    assert missed(row(4.2, 45, **many), Limits(30, 0)).endswith(": app-9 9, app-8 8, app-7 7 and 6 more")


def test_a_figure_that_is_not_known_misses_its_limit():
    assert missed(row(None, None, app=[0]), Limits(30)).startswith("RTO is not known (limit 30 s)")
    assert missed(row(4.2, 0, app=[None], late=[1]), Limits(None, 5)) == (
        "RTO 4.2 s; an unknown number of records read again (limit 5): app not known, late 1"
    )


def test_a_large_limit_is_written_in_digits():
    said = missed(row(4.2, 2_000_000, app=[2_000_000]), Limits(30, 1_500_000))
    assert "2,000,000 records read again (limit 1,500,000)" in said


def test_what_is_not_known_was_not_exceeded():
    exceeded, unknown = "exceeded a limit", "did not show that it met a limit"
    assert failing(row(None, 0, app=[0]), Limits(30)) == unknown
    assert failing(row(None, 12, app=[12]), Limits(30, 5)) == exceeded
    assert failing(row(4.2, 0, app=[None]), Limits(30, 5)) == unknown
    assert failing(row(41.2, 0, app=[0]), Limits(30)) == exceeded


def test_a_partition_that_is_left_without_a_commit_reads_nothing_again():
    one = row(app=[0])
    one["groups"][0]["partitions"].append({"reread_max": None, "reason": "no_commit"})
    assert missed(one, Limits(30, 0)) == ""
