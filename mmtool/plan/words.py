"""Parts of sentences that plans and reports share, also in a Markdown page."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from mmtool.plain_text import printable
from mmtool.translation.types import UNKNOWN, Unknown

_BACKQUOTES = re.compile("`+")
BAR = "\\|"
"""A bar inside a table's cell; outside of tables, code would show the backslash."""


def prose(text: str) -> str:
    """A sentence in one line, without HTML."""
    return printable(text).replace("<", "&lt;")


def code(text: str) -> str:
    """A name or a command as code, between more backquotes than it has itself."""
    shown = printable(text)
    longest = max(map(len, _BACKQUOTES.findall(shown)), default=0)
    if not longest:
        return f"`{shown}`"
    fence = "`" * (longest + 1)
    return f"{fence} {shown} {fence}"


def row(cells: Iterable[str]) -> str:
    """A row of a table; its cells are prose or code, whose bars end no cell."""
    return f"| {' | '.join(cell.replace('|', BAR) for cell in cells)} |"


_END_OF_TIME_MS = 253_402_300_800_000  # the year 10000
_NO_FILE = re.compile(r"[^\w.-]", re.ASCII)
_FILE_PART_LENGTH = 100
_DAY_SECONDS = 86_400


def counted(number: int, thing: str) -> str:
    """A number with its noun: ``1 partition``, ``1,200 partitions``, ``2 addresses``."""
    ending = "es" if thing.endswith(("s", "x", "ch", "sh")) else "s"
    return f"1 {thing}" if number == 1 else f"{number:,} {thing}{ending}"


def at_most(number: int | Unknown, thing: str) -> str:
    """A bound with its noun: ``at most 3 records``, ``an unknown number of records``."""
    return f"an unknown number of {thing}s" if number is UNKNOWN else f"at most {counted(number, thing)}"


def are(number: int) -> str:
    """The verb after `counted`: ``is`` or ``are``."""
    return "is" if number == 1 else "are"


def have(number: int) -> str:
    """The verb after `counted`: ``has`` or ``have``."""
    return "has" if number == 1 else "have"


def tally(things: Iterable[str]) -> str:
    """The count of each distinct thing: ``2 never_ran, 1 no_commit``; empty for none."""
    return ", ".join(f"{number} {thing}" for thing, number in sorted(Counter(things).items()))


def few(things: Sequence[object], most: int = 5) -> str:
    """The first ``most`` names, and the number of the others: ``a, b and 3 more``; empty for none."""
    named = ", ".join(map(str, things[:most]))
    more = len(things) - most
    return f"{named} and {more} more" if more > 0 else named


def named_topics(names: Sequence[str], most: int = 5) -> str:
    """The noun with the first ``most`` names: ``topic orders``, ``topics audit, orders``."""
    return f"{'topic' if len(names) == 1 else 'topics'} {few(names, most)}"


def joined(*sentences: str) -> str:
    """Join the sentences that are not empty with semicolons."""
    return "; ".join(filter(None, sentences))


ID_PLACEHOLDER = "OPERATION_ID"
"""What texts have for the id of an operation, where it is not known yet."""
SHOWS_ID = " (`mmtool failover list -c FILE` shows the id)"
"""The clause that belongs to `ID_PLACEHOLDER` in a command."""

AGAIN = "run the same command again"
"""The remedy that a repetition is, alone or at the end of another one."""
_LAST = re.compile(rf"(^|[,;] then ){AGAIN}(: .*)?$")


def first_part(remedy: str) -> str:
    """A remedy without the request to run the same command again that it may end with; empty for that request alone.

    What the request says of itself, after a colon, goes with it.
    """
    return _LAST.sub("", remedy)


def then(remedy: str, again: str = AGAIN) -> str:
    """A remedy and the command to run after it, in place of the one that the remedy may end with."""
    first = first_part(remedy)
    if first:
        return f"{first}; then {again}"
    return again if remedy else f"remove the cause, then {again}"


def flow_options(source: str, target: str) -> str:
    """The options that select a flow in a command of a remedy; FILE is the operator's properties file."""
    return f"-c FILE -s {source} -t {target}"


def file_part(name: str) -> str:
    """The name of an alias, group or topic as a part of a file name: no path separator, at most 100 characters."""
    return _NO_FILE.sub("-", name)[:_FILE_PART_LENGTH]


def moment(ms: int) -> str:
    """A time in ms since 1970 as ISO-8601 in UTC, to the second; a number where no calendar has it."""
    at = clock_time(ms // 1000 * 1000)
    return f"{ms} ms after 1970" if at is None else at.isoformat().replace("+00:00", "Z")


def clock_time(ms: int) -> datetime | None:
    """A time in ms since 1970, in UTC; None where no calendar has it, as in a damaged record."""
    return datetime.fromtimestamp(ms / 1000, UTC) if 0 <= ms < _END_OF_TIME_MS else None


def last_seen(alias: str, at_ms: int, now_ms: int) -> str:
    """How long ago a cluster was seen, and when: ``east last seen 82 s ago (at 20:31:07)``, in UTC."""
    seconds, at = max(0, now_ms - at_ms) // 1000, moment(at_ms)
    if seconds >= _DAY_SECONDS:
        return f"{alias} last seen at {at}"
    ago = f"{seconds} s" if seconds < 2 * 60 else f"{seconds // 60} min"
    return f"{alias} last seen {ago} ago (at {at[11:19]})"


@dataclass(frozen=True, slots=True)
class Names:
    """The names of the two clusters in sentences.

    Attributes:
        source: The alias of the flow's source.
        target: The alias of the flow's target.
    """

    source: str
    target: str

    @property
    def flow(self) -> str:
        return f"{self.source}->{self.target}"


def retried(error: Exception) -> str:
    """An error that mmtool retries by itself, as one sentence: its remedy asks for no command to be run again."""
    return joined(str(error) or type(error).__name__, first_part(getattr(error, "remedy", "")))
