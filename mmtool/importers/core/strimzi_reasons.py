"""Why fields of a ``KafkaMirrorMaker2`` have no equal in a properties file."""

from __future__ import annotations

import re

_WORKERS = "configures Kafka Connect's workers, which mmtool does not have"
_POD = "configures the operator's pods: set it where mmtool runs"
_REASONS = {
    **dict.fromkeys(("replicas", "version", "configStorageTopic", "statusStorageTopic"), _WORKERS),
    **dict.fromkeys(("tasksMax", "autoRestart", "listOffsets", "alterOffsets"), _WORKERS),
    **dict.fromkeys(("image", "resources", "livenessProbe", "readinessProbe", "template"), _POD),
    **dict.fromkeys(("jvmOptions", "jmxOptions", "clientRackInitImage"), _POD),
    "logging": "mmtool has --log-format and -v",
    "metricsConfig": "mmtool has its own metrics: mmtool replicate --metrics-port PORT",
    "metrics": "mmtool has its own metrics: mmtool replicate --metrics-port PORT",
    "tracing": "mmtool copies record batches unchanged, without Java's interceptors",
    "rack": "set ALIAS.consumer.client.rack to the rack in which mmtool runs",
    "externalConfiguration": "provide these secrets to mmtool as environment variables or files",
    "httpRetries": "mmtool retries by sasl.login.retry.backoff.ms",
    "httpRetryPauseMs": "mmtool retries by sasl.login.retry.backoff.ms",
    "enableMetrics": "metrics of Strimzi's Java login handler",
    "connectCluster": "names the cluster of Kafka Connect, which mmtool does not need",
}
_BLACKLIST = re.compile(r"(topics|groups)BlacklistPattern")


def reason_of(path: str) -> str:
    """The reason for one path, by its last name, or by the nearest name above it that has one."""
    for name in reversed(re.split(r"[.\[]", path)):
        if found := _BLACKLIST.fullmatch(name):
            return f"without effect beside {found[1]}ExcludePattern, in Strimzi as well"
        if name in _REASONS:
            return _REASONS[name]
    return "has no equal in mmtool"
