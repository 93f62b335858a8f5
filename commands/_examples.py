"""The examples at the end of each command's `--help`: whole command lines that work, with names to replace."""

from __future__ import annotations

_OPERATION = "20260131T120000Z-5eed01"
_EXAMPLES = (
    "replicate -c mm2.properties --until-caught-up",
    "translate-offsets -c mm2.properties -g app",
    "groups audit -c mm2.properties --all-groups",
    "groups sync -c mm2.properties --all-groups",
    "groups export -c mm2.properties -g app",
    "groups import offsets.csv -c mm2.properties -g app",
    "failover planned -c mm2.properties -g app --out plan.json",
    "failover emergency -c mm2.properties --all-groups",
    "failover failback -c mm2.properties --all-groups",
    "failover drill -c mm2.properties --all-groups",
    "failover list -c mm2.properties",
    f"failover show {_OPERATION} -c mm2.properties",
    f"failover resume {_OPERATION} -c mm2.properties",
    f"failover cancel {_OPERATION} -c mm2.properties",
    f"failover rollback {_OPERATION} -c mm2.properties",
    "failover release -c mm2.properties --topic orders",
    "flow seek -c mm2.properties --topic orders --to 2026-01-31T12:00:00Z",
    "flow forget -c mm2.properties --topic orders",
    "flow rebuild -c mm2.properties --topic orders",
    "flow pause -c mm2.properties --topic orders",
    "flow resume -c mm2.properties --topic orders",
    "status -c mm2.properties --groups",
    "verify -c mm2.properties --topic orders",
    "evidence verify drill.html --key ann.pub",
    "doctor -c mm2.properties",
    "init -s east --source-servers east-1:9092 -t west --target-servers west-1:9092",
    "config check -c mm2.properties",
    "config show -c mm2.properties",
    "config import --strimzi mirror-maker-2.yaml",
    "acls -c mm2.properties --for replicate --format kafka-acls --principal User:mmtool",
    "metrics -c mm2.properties --port 9404",
    "demo --keep",
    "lab up --clusters east,west",
    "lab down --keep-data",
    "lab status",
    "smoke -c mm2.properties --timeout 1m",
)


def examples_of(command: str) -> list[str]:
    """The example of a command, or those of a group's commands, by its words without ``mmtool``; may be empty."""
    return [line for line in _EXAMPLES if f"{line} ".startswith(f"{command} ")]
