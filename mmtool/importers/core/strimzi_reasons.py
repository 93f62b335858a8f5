"""Why fields of a ``KafkaMirrorMaker2`` have no equal in a properties file."""

from __future__ import annotations

import re

_WORKERS = "configures Kafka Connect's workers, which mmtool does not have"
_POD = "configures the pods that Strimzi starts; mmtool runs in a pod or process of its own"
_RETRIES = "mmtool repeats requests for a token by itself, after sasl.login.retry.backoff.ms"
_REASONS = {
    **dict.fromkeys(("replicas", "version", "configStorageTopic", "statusStorageTopic"), _WORKERS),
    **dict.fromkeys(("tasksMax", "autoRestart", "listOffsets", "alterOffsets"), _WORKERS),
    **dict.fromkeys(("image", "resources", "livenessProbe", "readinessProbe", "template"), _POD),
    **dict.fromkeys(("jvmOptions", "jmxOptions", "clientRackInitImage"), _POD),
    "logging": "mmtool has its own logging: --log-format and -v",
    "metricsConfig": "mmtool has its own metrics: mmtool replicate --metrics-port PORT",
    "metrics": "mmtool has its own metrics: mmtool replicate --metrics-port PORT",
    "tracing": "mmtool has no tracing: it does not run the interceptors of Java's clients",
    "rack": "mmtool has no such setting: it reads each partition from its leader, in whatever rack that is",
    "externalConfiguration": "provide these secrets to mmtool as environment variables or files",
    **dict.fromkeys(("httpRetries", "httpRetryPauseMs"), _RETRIES),
    "enableMetrics": "configures metrics of Strimzi's Java login handler, which mmtool does not use",
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
    return "mmtool has no such setting"
