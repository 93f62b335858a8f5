"""The verdict on a mirror: from both sides' records, what the flow stored, and how its group was seen."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kit.chaos.anomalies import Committed, Kind, of_group, of_records
from kit.chaos.sides import first_unread, records_below
from kit.exactness import stored_maps, wrong_translations
from mmtool.translation.types import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kit.chaos.anomalies import Anomaly, BothLogs
    from kit.chaos.group import Glance
    from mmtool.config import FlowSettings
    from mmtool.lab.cluster import Cluster
    from mmtool.translation.types import TopicPartition

    Logs = Mapping[TopicPartition, BothLogs]
    Glances = Mapping[TopicPartition, Sequence[Glance]]
    Places = Mapping[TopicPartition, int]

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found, and of how much.

    Attributes:
        failures: Everything that must not be, a kind a line.
        records: On the source.
        offsets_proven: Commits whose translation was held against the records, both ways.
        glances: How often the group was seen on the target, and judged.
    """

    failures: Sequence[str]
    records: int
    offsets_proven: int
    glances: int


def judge(
    flow: FlowSettings, source: Cluster, target: Cluster, logs: Logs, seen: Glances, *, same: bool = False
) -> Verdict:
    """Of topics whose mirror has come to their end.

    Args:
        flow: Its settings, past any link.
        source: The lab's.
        target: The same.
        logs: Every partition of the flow's topics, by the source's name.
        seen: By the same names. That a group was never seen is a failure, as is a topic without a record: nothing
            would be told of them.
        same: The target keeps the source's offsets: nothing is translated.
    """
    maps = stored_maps(flow, source, target)
    claims = {
        place: replace(one, claimed=maps[place].upstream_frontier if place in maps else UNKNOWN)
        for place, one in logs.items()
    }
    topics = sorted({place.topic for place in logs})
    asked, wrong = (0, []) if same else wrong_translations(flow, source, target, topics)
    glances = sum(len(seen.get(place, ())) for place in logs)
    failures = [
        *_told([one for each in claims.values() for one in of_records(each)]),
        *_told(wrong_places(logs, seen, same=same)),
        *(f"translated wrongly: {one}" for one in wrong[:_SHOWN]),
        *_empty(logs),
        *([] if glances else ["the group was never seen on the target"]),
    ]
    return Verdict(failures, sum(len(one.source) for one in logs.values()), asked, glances)


def wrong_records(logs: Logs) -> list[Anomaly]:
    """What is wrong with what came from the source; what was born on the target is let be."""
    found = (anomaly for one in logs.values() for anomaly in of_records(one))
    return [anomaly for anomaly in found if anomaly.kind is not Kind.FOREIGN]


def wrong_places(logs: Logs, seen: Glances, *, same: bool = False) -> list[Anomaly]:
    """What was wrong with a group on the target at any moment, both by the source's partitions."""
    return [
        anomaly
        for place, glances in seen.items()
        if place in logs
        for anomaly in of_group(
            place,
            [
                Committed(
                    g.offset, max(first_unread(logs[place], g.upstream), g.upstream if same else 0), g.end
                )
                for g in glances
            ],
        )
    ]


def stands_well(logs: Logs, there: Places, home: Places, read_to: Places) -> bool:
    """Whether a group stands on the target where it had read to at home, in every partition that it has read there.

    By the records that it has behind it: between its commit and the first record that it has not read may lie markers,
    as each owner leaves them that comes after another one's death.

    Args:
        logs: By the source's partitions, as everything here.
        there: Its commits on the target.
        home: Its commits on the source.
        read_to: What it had read. A commit that came back by itself lies below, and either may be what was moved.
    """
    if there.keys() != home.keys() & logs.keys():
        return False
    return all(
        records_below(logs[at], first_unread(logs[at], home[at]))
        <= records_below(logs[at], offset)
        <= records_below(logs[at], first_unread(logs[at], max(home[at], read_to.get(at, 0))))
        for at, offset in there.items()
    )


def _empty(logs: Logs) -> list[str]:
    written = {place.topic for place, one in logs.items() if one.source}
    silent = sorted({place.topic for place in logs} - written)
    return [f"nothing was written into {topic}" for topic in silent] if logs else ["there is no topic"]


def _told(found: Sequence[Anomaly]) -> Iterator[str]:
    for kind, count in Counter(one.kind for one in found).items():
        first = [str(one) for one in found if one.kind is kind][:_SHOWN]
        yield f"{count} {kind}: {', '.join(first)}"
