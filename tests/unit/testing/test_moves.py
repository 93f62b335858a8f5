"""What is typed next when an operation under faults ended, and what counts against it."""

from __future__ import annotations

from types import SimpleNamespace

from kit.chaos.moves import Move, MoveOutcome, MoveRun

DRILL = "mmtool failover rollback 20261125T184526Z-9018f9 deletes what it left"


def typed(move, *answers):
    """The lines that follow each other for such answers, each an exit code and what was said; and the failures."""
    run, lines, left = MoveRun.__new__(MoveRun), [], list(answers)
    run.outcome = MoveOutcome(11, 1, move, None)
    run._healed_at = None
    run._of_groups = lambda _: ()

    def answered(words, _name):
        lines.append(" ".join(words))
        code, said = left.pop(0)
        return SimpleNamespace(code=code, stderr=said, said=said.splitlines(), seconds=1.0)

    run._run = answered
    run._until_done()
    return lines, run.outcome.failures


def test_a_drill_that_was_cut_off_is_rolled_back_and_drilled_again():
    lines, failures = typed(Move.DRILL, (6, DRILL), (9, "error: away"), (0, ""), (0, ""))
    back = "failover rollback 20261125T184526Z-9018f9 --execute --yes"
    drill = str(Move.DRILL)
    assert (lines, failures) == ([drill, back, back, drill], [])


def test_an_end_that_the_contract_does_not_know_for_a_fault_counts_against_it():
    assert typed(Move.DRILL, (1, "error: unexpected KeyError"))[1] == [
        "ended with 1: ['error: unexpected KeyError']"
    ]
