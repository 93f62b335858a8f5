import pytest

from mmtool.output import human


@pytest.mark.parametrize(
    ("say", "number", "expected"),
    [
        (human.count, 0, "0"),
        (human.count, 950, "950"),
        (human.count, 12_345, "12.3k"),
        (human.count, 4_500_000, "4.5M"),
        (human.count, 250e9, "250G"),
        (human.count, 999_960, "1.0M"),
        (human.size, 512, "512 B"),
        (human.size, 1_536 * 1024, "1.5 MiB"),
        (human.size, 128 * 2**20, "128 MiB"),
        (human.record_rate, 73_400, "73.4k rec/s"),
        (human.byte_rate, 71_200_000, "71.2 MB/s"),
        (human.byte_rate, 5_000, "5.0 kB/s"),
        (human.byte_rate, 0, "0.0 MB/s"),
        (human.duration, 0.42, "0.4s"),
        (human.duration, 9.97, "10s"),
        (human.duration, 12, "12s"),
        (human.duration, 200, "3m 20s"),
        (human.duration, 7_500, "2h 5m"),
        (human.duration, 349_300, "4d 1h"),
        (human.eta, 0, "done"),
        (human.eta, 200, "in 3m 20s"),
    ],
)
def test_numbers_read_as_people_say_them(say, number, expected):
    assert say(number) == expected


@pytest.mark.parametrize(
    "say", [human.count, human.size, human.record_rate, human.byte_rate, human.duration, human.eta]
)
def test_unknown_is_a_dash(say):
    assert say(None) == "-"
