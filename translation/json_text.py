"""Parse JSON that another program may have written: in a broker's record, or in a file."""

from __future__ import annotations

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text, in UTF-8 where it is bytes.

    Raises:
        ValueError: It is no JSON, nested too deeply, or has half a surrogate pair, which no text can hold.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        value = json.loads(text)
        if "\\ud" in text or "\\uD" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error
    return value
