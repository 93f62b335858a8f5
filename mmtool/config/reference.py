"""The key table as docs/reference/config.md: ``python -m mmtool.config.reference`` prints it."""

from __future__ import annotations

import sys

from mmtool.config.keys import CLUSTER_ID, FLOW_KEYS, OWN_PREFIXES, UNIT_PREFIX, Key
from mmtool.config.security import MECHANISMS, PROTOCOLS

_HEAD = """\
# Configuration

One file: MirrorMaker 2's `connect-mirror-maker.properties`, named by `-c/--config` or `MMTOOL_CONFIG`. The same
file starts MirrorMaker 2 and mmtool. `mmtool config check` reads it and connects nowhere; `mmtool config show`
prints the value that holds for each flow, and the key that decides it.

This page is generated from the table of keys in `mmtool/config/keys.py`.

## Scopes

| written as | holds for |
|---|---|
| `key` | every flow; security keys: every client |
| `ALIAS.key` | one cluster's clients; mmtool's own keys: every flow with that cluster; the target's value wins over the source's |
| `ALIAS.producer.key`, `ALIAS.consumer.key`, `ALIAS.admin.key` | clients of that role; wins over `ALIAS.key` |
| `SOURCE->TARGET.key` | one flow; wins over all others |

`clusters` lists the aliases. A flow runs when `SOURCE->TARGET.enabled = true`. `-s` and `-t` can also name a flow that
is not enabled, to read and fail over a flow that MirrorMaker 2 runs.

`${env:NAME}`, `${file:PATH:KEY}` and `${directory:PATH:FILE}` are replaced when the file is read (no
`config.providers` is needed); one that cannot be resolved is an error. A line break at the end of a `${directory:}`
file is dropped.
Variables of other tools that were not substituted (`${NAME}`, `$HOST` in a server, `<your-host>`) are refused; a `$` in a
password is not.
The file is UTF-8 (bytes that are not: Latin-1). The last of several equal keys counts, with a warning.

Errors in the keys of a cluster or flow that no enabled flow uses are warnings, unless `-s` and `-t` name
that flow.

`topics`, `groups` and their excludes are Java regular expressions over whole names. Flags other than `i` and
`s`, `\\X`, `\\R` and a few forms of character classes are refused rather than read differently. `\\b` follows
Java 19 and later for letters outside ASCII. `topics.blacklist`, `groups.blacklist` and `config.properties.blacklist`,
which Kafka no longer reads since 4.0, are added to the excludes, with a warning.

A negative interval means never, as in MirrorMaker 2; 0 is refused. A number that MirrorMaker 2 takes and that is out
of mmtool's range (`admin.timeout.ms`, an interval, `offset.lag.max`) is replaced by the nearest one, with a warning.
"""  # noqa: E501 - Markdown: a table row is one line

_ALIASES = """\
## Aliases in topic names

Topic names contain the aliases of `clusters`. As in MirrorMaker 2, the file can override them:
`SOURCE->TARGET.source.cluster.alias` wins over `ALIAS.alias`, and that over the global `source.cluster.alias`; likewise
`target.cluster.alias`. These aliases are used in the names of mirrored topics, checkpoints and offset syncs, in
heartbeats, and as the value of `${source}`; `mm2-offsets.ALIAS.internal`, the workers' group and mmtool's own topics
keep the alias of `clusters`. With a blank `replication.policy.separator` and blank aliases topics keep their names.

A topic name that begins with a known alias is split after the longest such alias; any other name is split at the first
separator. A flow in each direction between clusters whose alias contains the separator is refused, because
MirrorMaker 2 would mirror topics back under ever longer names: set `ALIAS.alias`. A slash in an alias is written as a
dash in topic names.
"""

_SECURITY = """\
## Connecting

| key | meaning |
|---|---|
| `bootstrap.servers` | comma list of host:port; needed for each cluster; a `PROTOCOL://` prefix is ignored |
| `security.protocol` | {protocols} |
| `sasl.mechanism` | {mechanisms} |
| `sasl.jaas.config` | of `PlainLoginModule` or `ScramLoginModule`: user name and password are taken from it |
| `sasl.username`, `sasl.password` | user name and password as keys of their own; both together win over `sasl.jaas.config` |
| `ssl.truststore.location`, `.password`; or `.certificates` | trusted certificates: a JKS, PKCS12 or PEM store, or PEM text; not set: the system's trusted certificates |
| `ssl.keystore.location`, `.password`; or `.certificate.chain` and `.key` | the client's private key and certificate chain, in the same formats |
| `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location` | the same as single PEM files |
| `ssl.key.password` | password of the private key; default in a JKS or PKCS12 store: the store's password |
| `ssl.endpoint.identification.algorithm` | `https`; empty: host names are not checked |
| `ALIAS.{cluster_id}` | the id that the cluster must answer with |

PEM may stand in one line, or on continuation lines. The format of a store is found from its content; `ssl.truststore.type` and `ssl.keystore.type` are accepted and not
needed. The `java` that Spark runs on reads JKS stores, PKCS12 stores whose key has a password of its own, and a PKCS12
key store that is used as trust store (as in Java, only the first certificate of its key's chain is trusted), all in
memory. Stores are read once, where the command runs:
Spark's executors need no copy. Stores of other types (JCEKS, BKS) are refused with the command that converts them. A
wrong password and a store without the entry that is needed are errors. An expired certificate is an error to
`config check`, and a warning to all other commands: brokers refuse the connection, and an emergency failover from that cluster does not need the connection. OpenSSL, unlike Java,
trusts no intermediate or server certificate by itself: a trust store must hold the root. Write secrets as
placeholders; mmtool never shows a secret.
"""  # noqa: E501 - Markdown: a table row is one line

_TAIL = """\
## Client settings

Of the keys with the prefix `ALIAS.consumer.`, `ALIAS.producer.` or `ALIAS.admin.` these have an effect: security
settings, and `isolation.level` and `auto.offset.reset` of the source's consumer (`by_duration:P7D` as well). These
connection settings, under `consumer.` and `admin.`, apply to reading stored state (topics of mmtool and MirrorMaker 2)
and to administration only, not to fetching and writing batches: `client.dns.lookup`, `connections.max.idle.ms`,
`metadata.max.age.ms`, `receive.buffer.bytes`, `send.buffer.bytes`, `reconnect.backoff.*`, `retry.backoff.*`,
`socket.connection.setup.timeout.ms`. A number that librdkafka does not take is replaced by the nearest one, with a
warning. All other client settings have no effect, because whole record batches are copied: no client fetches,
compresses or batches. Values that Java's clients refuse are refused.

## Not read

Kafka Connect's keys (`tasks.max`, `config.storage.*`, converters, REST) are accepted and reported as not
needed. Two of them are read to find a running MirrorMaker 2 and its source offsets: `TARGET.group.id`, and
`offset.storage.topic` (global, then under `TARGET.`). Keys that would change what is copied are refused:
`transforms`, filter classes and naming policies other than Kafka's own. Keys removed in Kafka 4.0 and
unknown keys get a warning, with the nearest known name.
"""


def reference_page() -> str:
    """The whole page, as Markdown."""
    security = _SECURITY.format(
        protocols=", ".join(PROTOCOLS), mechanisms=", ".join(MECHANISMS), cluster_id=CLUSTER_ID
    )
    mm2 = [key for key in FLOW_KEYS.values() if not key.is_own]
    own = [key for key in FLOW_KEYS.values() if key.is_own]
    parts = [
        _HEAD,
        _ALIASES,
        security,
        "## MirrorMaker 2's keys\n\n" + _mm2_table(mm2),
        "## Own keys\n\n" + _own_table(own),
        _TAIL,
    ]
    return "\n".join(parts)


def _mm2_table(keys: list[Key]) -> str:
    rows = [f"| `{k.name}` | {_code(k.default)} | {_code(k.mm2)} | {k.meaning} |" for k in keys]
    isolation = (
        "| `consumer.isolation.level` (of the source) | `read_committed` | `read_uncommitted` "
        "| `read_committed`: aborted records are not mirrored. Written as `SOURCE.consumer.isolation.level`. |"
    )
    head = ["| key | default | MirrorMaker 2's, where different | meaning |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, isolation]) + "\n"


def _own_table(keys: list[Key]) -> str:
    rows = [f"| `{k.name}` | {_code(k.default)} | {_range(k)} | {k.meaning} |" for k in keys]
    free = [f"| `{prefix}*` |  |  | {meaning} |" for prefix, meaning in OWN_PREFIXES.items()]
    unit = f"| `{UNIT_PREFIX}NAME.topics`, `.groups` |  |  | Lists of patterns that `--unit NAME` selects. |"
    return "\n".join(["| key | default | values | meaning |", "|---|---|---|---|", *rows, *free, unit]) + "\n"


def _code(text: str | None) -> str:
    return "" if text is None else "`" + text.replace("|", "\\|") + "`"


def _range(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    return f"{key.minimum} to {key.maximum}" if key.kind == "integer" else ""


if __name__ == "__main__":
    sys.stdout.write(reference_page())
