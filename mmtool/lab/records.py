"""Realistic records of the lab, each with its partition and its number in it."""

from __future__ import annotations

import json
import random
import re

from mmtool.errors import UsageError

_TEMPLATES = 256
_NOISE_BYTES = 4 << 20  # longer than any batch, so that a batch seldom holds the same slice twice
_NOISE_SHARE, _NOISE_SPARED = 0.255, 5  # the frame of a short record is not free either
_GOLDEN = 0.618_034  # multiples of this share of a range stay as far apart as they can
_PRINTABLE = bytes(c for c in range(0x21, 0x7F) if c not in b'"\\')
_HEAD = b'{"id":"%d-%012d",'
_HEAD_PATTERN = re.compile(rb'\{"id":"(\d+)-(\d+)"')
_ROOM_FOR_FIELDS = 450
SMALLEST_RECORD = 64

_WORDS = {
    "status": ("created", "paid", "packed", "shipped", "delivered", "returned", "cancelled"),
    "country": ("DE", "FR", "IT", "ES", "PL", "NL", "SE", "AT", "US", "JP"),
    "currency": ("EUR", "USD", "SEK", "PLN", "JPY"),
    "channel": ("web", "app", "store", "partner", "phone"),
    "warehouse": ("north-1", "north-2", "south-1", "east-3", "west-2"),
    "customer_segment": ("private", "business", "reseller", "public sector"),
}
_PHRASES = (
    "handed to the carrier at the loading bay and scanned once more, ",
    "the customer asked by phone for delivery after six in the evening, ",
    "address checked against the register, house number added by hand, ",
    "stock is reserved in the regional warehouse until the payment has cleared, ",
    "two of the three items left today, the last one follows on its own, ",
    "returned unopened, refund released without a second inspection, ",
    "invoice sent as PDF to accounting and filed under the yearly agreement, ",
    "gift wrapping chosen, the price is left out of the delivery note, ",
)


class RecordMaker:
    """Makes values of exactly ``size`` bytes, each with its partition and its number in that partition.

    Valid JSON; equal seeds make equal records.

    Raises:
        UsageError: ``size`` is below 64.
    """

    def __init__(self, size: int, seed: int = 1) -> None:
        if size < SMALLEST_RECORD:
            raise UsageError(
                f"records of {size} bytes are too small: at least {SMALLEST_RECORD} bytes are needed"
            )
        self._size = size
        chance = random.Random(seed)
        self._noise = chance.randbytes(_NOISE_BYTES).translate((_PRINTABLE * 3)[:256])
        self._noise_length = int(size * _NOISE_SHARE) - _NOISE_SPARED
        self._places = _NOISE_BYTES - self._noise_length
        self._stride = int(self._places * _GOLDEN)
        self._templates = [_template(size, chance) for _ in range(_TEMPLATES)]
        self._cut: dict[int, list[bytes]] = {}

    def value(self, partition: int, sequence: int) -> bytes:
        head = _HEAD % (partition, sequence)
        tails = self._cut.get(len(head)) or self._tails(len(head))
        place = (sequence + 977 * partition) * self._stride % self._places
        noise = self._noise[place : place + self._noise_length]
        return b'%b"k":"%b","note":"%b' % (head, noise, tails[sequence % _TEMPLATES])

    def _tails(self, head_length: int) -> list[bytes]:
        """The templates, cut in their free text so that the whole record has its size."""
        length = self._size - head_length - self._noise_length - len(b'"k":"","note":"')
        return self._cut.setdefault(head_length, [template[-length:] for template in self._templates])


def numbered(value: bytes) -> tuple[int, int]:
    """The partition, and the number in it, of a record that a RecordMaker made.

    Raises:
        ValueError: The record was not made by one.
    """
    found = _HEAD_PATTERN.match(value)
    if found is None:
        raise ValueError(f"not a record of the lab: {value[:40]!r}")
    return int(found.group(1)), int(found.group(2))


def _template(size: int, chance: random.Random) -> bytes:
    """The tail of a record: free text that may be cut at its front, its closing quote, and fields if there is room."""
    fields = json.dumps({name: chance.choice(words) for name, words in _WORDS.items()})
    ending = b'",' + fields.encode()[1:] if size > _ROOM_FOR_FIELDS else b'"}'
    text = "".join(chance.choices(_PHRASES, k=size // 40))
    return text.encode() + ending
