"""Whatever a broker or a file holds: each decoder gives a value or its own error, soon, and in little memory.

10,000 cases in all with the standard profile, of damaged valid encodings and of random bytes; `deep` tries eight times
as many, and `make fuzz` goes on for as long as it is told.
"""

import gc
import time
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kit.decoders.damage import LONGEST_DAMAGE, damaged, edits_of
from kit.decoders.every import every_decoder
from kit.resident import resident_growth

ROWS = every_decoder()
STANDARD = settings.get_profile("standard").max_examples
CASES = 10_000
SLOW_CASES = 40
"""With the standard profile: of all decoders together, and of one whose case takes milliseconds."""

SECONDS = 1.0
"""CPU time of its thread that a case may take, and more for each byte, by the table."""
MOST = 48 << 20, 400
"""Bytes that a case may allocate, and more for each byte; a connection makes room for a response of 32 MiB at once."""
RESIDENT = 400 << 20
"""Bytes by which the process may grow over all cases of a decoder; one batch may have 256 MiB of records."""

_FAST = [row for row in ROWS if not row.is_slow]
_SLOW_TOTAL = SLOW_CASES * (len(ROWS) - len(_FAST))
_EACH = -(-(CASES - _SLOW_TOTAL) // len(_FAST))


def cases(row):
    """How often a decoder is tried, by the profile: quick, standard or deep."""
    return max(1, (SLOW_CASES if row.is_slow else _EACH) * settings().max_examples // STANDARD)


def costs_little(row, data):
    """Decode once: a value or an error of the table, within the limits of time and memory."""
    gc.disable()  # a collection visits all that the tests before have left
    began = time.thread_time()
    tracemalloc.start()
    try:
        row.read(data)
    except row.errors:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        seconds = time.thread_time() - began
        gc.enable()
    assert seconds < SECONDS + row.seconds_per_byte * len(data)
    assert peak < MOST[0] + MOST[1] * len(data)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_sample_is_read_without_an_error(row):
    """Damage to bytes that no decoder reads would try nothing."""
    for sample in row.samples:
        row.read(sample)
        row.read(row.seal(sample))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
@pytest.mark.timeout(300)
def test_damaged_bytes_give_a_value_or_the_decoders_own_error_at_little_cost(row):
    row.read(row.samples[0])  # what is loaded once is no cost of a case

    @settings(max_examples=cases(row), deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.integers(0, 8 * len(row.samples) - 1), st.binary(max_size=LONGEST_DAMAGE))
    def holds(which, damage):
        sample = row.samples[which // 8]
        if which % 8 == 0:
            costs_little(row, damage)
        elif which % 8 < 4:
            costs_little(row, damaged(sample, edits_of(damage)))
        else:
            costs_little(row, row.seal(damaged(sample, edits_of(damage))))

    with resident_growth() as growth:
        holds()
    assert growth.most < RESIDENT
