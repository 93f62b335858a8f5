"""Names that would steer a terminal, a page or a shell, were they sent as they are."""

from __future__ import annotations

import re

from hypothesis import strategies as st

HOSTILE = (
    "a\nrm -rf x\x1b[31m",
    "\x1b[2J\x1b]0;title\x07",
    "$(reboot)",
    "'; rm -rf x; '",
    "`reboot`",
    "a\rb\x85c\u2028d\u2029e\x0bf\x0cg",
    "txt.\u202egpj",
    "a\x00b",
    "=ls",
    "-rf",
    "a!b\\n'c\t",
    "<img src=x onerror=alert(1)>|```",
    "long" * 8_000,
)

names = st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
"""Names as Kafka lets a client choose them."""

_SENT = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def sent(text: str) -> list[str]:
    """The characters of a text that a terminal obeys, or that turn its reading direction; line feeds are left out."""
    return _SENT.findall(text)
