"""One reader of a flow's stored state, in a process of its own, so that its peak memory is its own.

    python benchmarks/growth_readers.py READER BOOTSTRAP SOURCE_ID TARGET_ID SOURCE_ALIAS

One JSON object on stdout.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
from gauges import peak_mib

from mmtool.config import ClusterSettings
from mmtool.kafka.state.flow_state import FollowedFlowState, KafkaFlowState
from mmtool.kafka.state.state_log import read_newest_blocks
from mmtool.plan.records.identity import FlowIdentity
from mmtool.translation.answers import TargetLog
from mmtool.translation.translate import translate_many
from mmtool.translation.types import ClusterId, DownstreamOffset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mmtool.translation.partition_map import PartitionMap


def main() -> None:
    reader, bootstrap, source_id, target_id, alias = sys.argv[1:]
    cluster = ClusterSettings(alias="b", bootstrap_servers=bootstrap)
    identity = FlowIdentity(ClusterId(source_id), ClusterId(target_id), alias, "b")
    (before,) = peak_mib([os.getpid()])
    again = translation = None
    began = time.perf_counter()
    if reader == "start":
        runs = sum(len(block.runs) for block in read_newest_blocks(cluster, identity).values())
        seconds = time.perf_counter() - began
    else:
        state = FollowedFlowState(cluster) if reader == "watch" else KafkaFlowState(cluster)
        maps = state.maps(identity)
        seconds = time.perf_counter() - began
        translation = _translation_ms(maps.values())
        if reader == "watch":
            began = time.perf_counter()
            state.maps(identity)
            again = time.perf_counter() - began
        runs = sum(len(known.runs) for known in maps.values())
    found = {"seconds": seconds, "again": again, "translation_ms": translation, "runs": runs}
    (peak,) = peak_mib([os.getpid()])
    print(json.dumps({**found, "heap_mib": peak - before}))


def _translation_ms(maps: Iterable[PartitionMap]) -> float:
    """One commit in the middle of each partition."""
    began = time.perf_counter()
    for known in maps:
        target = TargetLog(DownstreamOffset(0), known.runs.downstream_end)
        translate_many(known, np.array([known.upstream_frontier // 2]), target=target)
    return (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    main()
