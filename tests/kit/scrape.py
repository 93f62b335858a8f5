"""What Prometheus does: fetch ``/metrics`` over HTTP, and look at single series."""

from __future__ import annotations

import re
import time
from http.client import HTTPConnection
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_SERIES = re.compile(r"^(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_FETCH_SECONDS = 10.0


class Page(NamedTuple):
    """An answer to a GET request."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def text(self) -> str:
        return self.body.decode()


class Series(NamedTuple):
    """One sample of the text format."""

    name: str
    labels: Mapping[str, str]
    value: float


def fetch(url: str, path: str = "/metrics", **headers: str) -> Page:
    """GET a path of the server at ``url``."""
    where = urlsplit(url)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=_FETCH_SECONDS)
    try:
        began = time.monotonic()
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        body = answer.read()
        return Page(answer.status, dict(answer.headers.items()), body, time.monotonic() - began)
    finally:
        connection.close()


def scrape(url: str) -> list[Series]:
    """Every series of ``/metrics``."""
    return series_of(fetch(url).text)


def series_of(text: str) -> list[Series]:
    """Every series of a text in Prometheus' format."""
    found = (_SERIES.match(line) for line in text.splitlines() if not line.startswith("#"))
    return [
        Series(one["name"], dict(_LABEL.findall(one["labels"] or "")), float(one["value"]))
        for one in found
        if one is not None
    ]


def values(series: list[Series], name: str, *labels: str, **only: str) -> dict[tuple[str, ...], float]:
    """The values of a family by some of its labels, of the series whose other labels are as given."""
    return {
        tuple(one.labels.get(label, "") for label in labels): one.value
        for one in series
        if one.name == name and only.items() <= one.labels.items()
    }
