"""Format numbers for people. JSON and CSV never use these."""

from __future__ import annotations

from mmtool.plain_text import duration

_UNKNOWN = "-"
_ROUNDS_UP = 0.9995
"""From this share of the next unit on, three digits would read ``1000``."""

_LEAST_MEGABYTES = 0.1
_DECIMAL = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2.0**40, " TiB"), (2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB"))


def count(number: float | None) -> str:
    """A number in three digits with its unit: ``950``, ``12.3k``, ``4.5M``."""
    return _scaled(number, _DECIMAL, "")


def records(number: int) -> str:
    """A number of records as `count` writes it, with its noun: ``1 record``, ``12.3k records``."""
    return f"{count(number)} {'record' if number == 1 else 'records'}"


def size(number: float | None) -> str:
    """Bytes in binary units, as in brokers' settings: ``512 B``, ``1.5 MiB``."""
    return _scaled(number, _BINARY, " B")


def _scaled(number: float | None, units: tuple[tuple[float, str], ...], smallest: str) -> str:
    if number is None:
        return _UNKNOWN
    for factor, unit in units:
        if abs(number) >= factor * _ROUNDS_UP:
            return f"{_three_digits(number / factor)}{unit}"
    return f"{number:.0f}{smallest}"


def record_rate(per_second: float | None) -> str:
    """Records per second: ``73.4k rec/s``."""
    return _UNKNOWN if per_second is None else f"{count(per_second)} rec/s"


def byte_rate(per_second: float | None) -> str:
    """Bytes per second in decimal units, as for networks: ``71.2 MB/s``, or ``5.0 kB/s`` below 0.1 MB/s."""
    if per_second is None:
        return _UNKNOWN
    if 0 < per_second < _LEAST_MEGABYTES * 1e6:
        return f"{_three_digits(per_second / 1e3)} kB/s"
    return f"{_three_digits(per_second / 1e6)} MB/s"


def age(seconds: object) -> str:
    """The duration of a column in seconds; ``-`` where it is unknown."""
    return duration(seconds if isinstance(seconds, int | float) else None)


def eta(seconds: float | None) -> str:
    """The remaining time: ``done``, ``in 3m 20s``, or ``-`` where it is unknown."""
    if seconds is None:
        return _UNKNOWN
    return "done" if seconds <= 0 else f"in {duration(seconds)}"


def _three_digits(number: float) -> str:
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.1f}"
