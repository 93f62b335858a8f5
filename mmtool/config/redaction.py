"""Redact configuration values by an allow-list: a key that is not on it is hidden."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from mmtool.config.clientkeys import may_show_client_key

HIDDEN = "[hidden]"
"""The text in place of a hidden value, as Kafka shows a password-typed config."""

_SHOWN_SPARK_KEY = re.compile(
    r"spark\.(?:(?:executor|driver)\.(?:memory|memoryOverhead|cores|instances)|dynamicAllocation\.\w+"
    r"|sql\.shuffle\.partitions|task\.(?:cpus|maxFailures)|cores\.max|submit\.deployMode|ui\.enabled)"
)


def may_show_spark_key(name: str) -> bool:
    """Whether the value of a Spark property can be printed."""
    return _SHOWN_SPARK_KEY.fullmatch(name) is not None


class RawProperties(Mapping[str, str]):
    """Client or Spark properties as strings; repr and str hide every key that is not known to be harmless."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, str] | None = None) -> None:
        self._values = dict(values or {})

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return f"RawProperties({self.redacted()!r})"

    def redacted(self) -> dict[str, str]:
        """The properties for people, with unknown values as ``[hidden]``."""
        return {
            key: value if may_show_client_key(key) or may_show_spark_key(key) else HIDDEN
            for key, value in self._values.items()
        }
