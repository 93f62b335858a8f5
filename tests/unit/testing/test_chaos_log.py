"""Seeds one after the other: what is told of each, what is run again, and what is not."""

import json

import pytest

from kit.chaos import __main__ as chaos
from kit.chaos.moves import Move, MoveOutcome
from kit.chaos.schedule import Schedule

NO_FAULTS = Schedule(False, ())


class Place:
    """Where nothing is started."""

    healed = 0

    def __init__(self, _, brokers, *, compacts):
        self.brokers = brokers

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def heal(self, _):
        Place.healed += 1


class Run:
    """A seed that passes, but for those of which `ends` says more."""

    ran, ends = [], {}

    def __init__(self, place, _, seed):
        self.place, self.seed = place, seed

    def run(self):
        Run.ran.append(self.seed)
        end = Run.ends.get(self.seed, [])
        if isinstance(end, Exception):
            raise end
        return MoveOutcome(self.seed, self.place.brokers, Move.SYNC, NO_FAULTS, failures=end)


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Runs seeds; the end's number, the seeds that ran, and the lines on the screen."""
    monkeypatch.setattr(chaos, "Place", Place)
    monkeypatch.setattr(chaos, "MoveRun", Run)
    monkeypatch.setattr(chaos, "_archive_classes", lambda: None)
    monkeypatch.setattr(Place, "healed", 0)

    def run(*arguments, ends=None):
        monkeypatch.setattr(Run, "ends", ends or {})
        monkeypatch.setattr(Run, "ran", [])
        code = chaos.main(["--moves", *map(str, arguments)])
        return code, Run.ran, capsys.readouterr().out.splitlines()

    return run


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log" / "seeds.jsonl"


def rows(log):
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_a_seed_that_fails_says_how_it_is_run_again_and_is(run, log):
    code, ran, said = run("--seeds", 3, "--log", log, ends={2: ["lost"]})
    assert (code, ran) == (1, [1, 2, 3])
    assert said[2] == "again: .venv/bin/python -m kit.chaos --moves --seed 2"
    assert run("--seeds", 3, "--log", log)[:2] == (0, [2])
    assert [(row["seed"], row["passed"]) for row in rows(log)] == [
        (1, True),
        (2, False),
        (3, True),
        (2, True),
    ]


def test_a_seed_that_breaks_has_failed_is_told_like_any_other_and_keeps_none_from_running(run, log):
    code, ran, said = run("--seeds", 2, "--brokers", 3, "--log", log, ends={1: ValueError("no leader")})
    assert (code, ran, Place.healed) == (1, [1, 2], 2)
    assert said[1] == "again: .venv/bin/python -m kit.chaos --moves --brokers 3 --seed 1"
    assert rows(log)[0] | {"at": 0} == {
        "at": 0,
        "seed": 1,
        "brokers": 3,
        "move": "failover emergency",
        "passed": False,
        "failures": ["no verdict: ValueError: no leader"],
    }


def test_a_line_that_was_being_written_counts_for_nothing_and_spoils_no_other(run, log):
    run("--seeds", 2, "--log", log)
    log.write_text(log.read_text()[:-20])
    assert run("--seeds", 2, "--log", log)[1] == [2]
    assert run("--seeds", 2, "--log", log)[1] == []
