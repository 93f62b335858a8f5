"""Answers to columns of offsets, as columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmtool.translation.answers import Answer, Bounded, Exact, Reason, Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mmtool.translation.runs import Flags, Offsets

Words: TypeAlias = NDArray[np.object_]
"""A one-dimensional column of ``str`` or None."""

MaskedOffsets: TypeAlias = "np.ma.MaskedArray[tuple[int], np.dtype[np.int64]]"
"""A one-dimensional column of int64, masked where there is no value."""

_ANSWERED: Final = -1
_REASONS: Final = tuple(Reason)
_REASON_WORDS: Final = np.array([*map(str, _REASONS), None], dtype=object)  # the last one is that of -1
_EXACTNESS_WORDS: Final = np.array(["exact", "bounded", "refused"], dtype=object)


class Columns(NamedTuple):
    """The answers to a column of offsets, as `Answers` keeps them.

    Attributes:
        offsets: Offsets of the other log; undefined where refused.
        codes: Numbers of reasons; `_ANSWERED` where there is an answer.
        rereads: As `Bounded.reread_max`, 0 where the answer is exact; undefined where refused.
    """

    offsets: Offsets
    codes: Offsets
    rereads: Offsets

    @classmethod
    def of(
        cls, offsets: Offsets, refusals: Iterable[tuple[Reason, Flags]], rereads: Offsets | int = 0
    ) -> Columns:
        """Answers at ``offsets``, except where ``refusals`` flag elements; an element's first refusal counts."""
        codes = np.full(len(offsets), _ANSWERED, dtype=np.int64)
        for reason, hit in refusals:
            codes[(codes == _ANSWERED) & hit] = _REASONS.index(reason)
        return cls(offsets, codes, np.zeros_like(offsets) + rereads)

    @classmethod
    def refused(cls, reason: Reason, count: int) -> Columns:
        """The same refusal ``count`` times."""
        return cls.of(np.zeros(count, dtype=np.int64), [(reason, np.ones(count, dtype=np.bool_))])

    @classmethod
    def gathered(cls, count: int, parts: Iterable[tuple[Offsets, Columns]]) -> Columns:
        """``count`` answers from parts, each with the indices of its elements."""
        columns = np.zeros((3, count), dtype=np.int64)
        for indices, part in parts:
            columns[:, indices] = part
        return cls(*columns)

    def except_where(self, hit: Flags, reason: Reason) -> Columns:
        """The same, but refused where ``hit``."""
        return self._replace(codes=np.where(hit, _REASONS.index(reason), self.codes))


@dataclass(frozen=True, slots=True, eq=False)
class Answers:
    """The answers to a column of offsets, in its order.

    Four columns, of one element for each offset. Iterating over it, or an index, gives single answers: `Exact`,
    `Bounded` or `Refused`.

    Attributes:
        downstream_offset: Offsets of the target, int64; masked where refused.
        exactness: ``exact``, ``bounded`` or ``refused``, as ``str`` objects.
        reread_max: How many records a group at the offset reads again, at most, int64: 0 where exact; masked
            where refused.
        reason: Why an offset is refused, a value of `Reason`; None where it is not.
    """

    _columns: Columns

    @property
    def downstream_offset(self) -> MaskedOffsets:
        return np.ma.masked_array(self._columns.offsets, self._is_refused)

    @property
    def exactness(self) -> Words:
        words: Words = _EXACTNESS_WORDS[np.where(self._is_refused, 2, self._columns.rereads > 0)]
        return words

    @property
    def reread_max(self) -> MaskedOffsets:
        return np.ma.masked_array(self._columns.rereads, self._is_refused)

    @property
    def reason(self) -> Words:
        words: Words = _REASON_WORDS[self._columns.codes]
        return words

    @property
    def _is_refused(self) -> Flags:
        flags: Flags = self._columns.codes != _ANSWERED
        return flags

    def __len__(self) -> int:
        return len(self._columns.offsets)

    def __getitem__(self, index: int) -> Answer:
        offset, code, again = (int(column[index]) for column in self._columns)
        if code != _ANSWERED:
            return Refused(_REASONS[code])
        return Bounded(offset, again) if again else Exact(offset)

    def __iter__(self) -> Iterator[Answer]:
        return (self[index] for index in range(len(self)))
