"""A hook that adds a partition to a topic of a real cluster while an operation runs, and writes records into it."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent

ADDED = 100
"""How many records it writes."""


def growing_hook(path: Path, bootstrap: str, topic: str, partition: int) -> str:
    """Write the hook to ``path``; ``partition`` is the new one, and the topic's last."""
    path.write_text(
        dedent(f"""\
            #!{sys.executable}
            import sys
            sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
            from confluent_kafka import Producer
            from kit.lab_admin import grow_topic
            grow_topic({bootstrap!r}, {topic!r}, {partition + 1})
            producer = Producer({{"bootstrap.servers": {bootstrap!r}}})
            for number in range(20_000, 20_000 + {ADDED}):
                producer.produce({topic!r}, b"added", b"added-%d" % number, {partition})
            assert producer.flush(30) == 0
            """)
    )
    path.chmod(0o755)
    return str(path)
