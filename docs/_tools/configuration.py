"""docs/reference/config.md, made of the table of keys."""

from __future__ import annotations

from mmtool.config.keys import CLUSTER_ID, FLOW_KEYS, OWN_PREFIXES, UNIT_PREFIX, Key
from mmtool.config.sasl import MECHANISMS
from mmtool.config.security import PROTOCOLS

_HEAD = """\
# Configuration

mmtool reads one file: MirrorMaker 2's `connect-mirror-maker.properties`. Name it with `-c/--config` or
`MMTOOL_CONFIG`. The same file starts MirrorMaker 2 and mmtool. `mmtool config check` reads the file and connects to no
cluster. `mmtool config show` prints the value of each setting in each flow, and the key that sets it.

This page is generated from the table of keys in `mmtool/config/keys.py`.

## Scopes

| written as | holds for |
|---|---|
| `key` | every flow; a security key: every client |
| `ALIAS.key` | the clients of one cluster; a key of mmtool: every flow from or to that cluster. If both clusters of a flow set the key, the target's value wins. |
| `ALIAS.producer.key`, `ALIAS.consumer.key`, `ALIAS.admin.key` | clients of that role; wins over `ALIAS.key` |
| `SOURCE->TARGET.key` | one flow; wins over all others |

`clusters` lists the aliases. A flow runs when `SOURCE->TARGET.enabled = true`. `-s` and `-t` can also name a flow that
is not enabled, for commands that only read. Commands that can change something refuse it with exit code 2, and their
rehearsals do as well: a swapped `-s` and `-t` reverses nothing.

mmtool replaces `${env:NAME}`, `${file:PATH:KEY}` and `${directory:PATH:FILE}` when it reads the file;
`config.providers` is not needed. A placeholder that cannot be resolved is an error. A line break at the end of a
`${directory:}` file is dropped. mmtool refuses variables of other tools that were not substituted (`${NAME}`, `$HOST`
in a server, `<your-host>`). A `$` in a password is not refused.

The file is UTF-8; a file with other bytes is read as Latin-1. If a key is set more than once, the last value counts,
and mmtool warns.

Errors in the keys of a cluster or flow that no enabled flow uses are warnings, unless `-s` and `-t` name
that flow.

`topics`, `groups` and their excludes are Java regular expressions over whole names. mmtool reads characters, `.`, `^`,
`$`, `|`, classes such as `[^a-z\\d-]`, `\\d \\w \\s \\b` and their opposites, `\\t \\n \\r \\f \\x41 \\u0041`, `\\Q...\\E`,
groups, `(?:...)`, lookarounds, the flags `i` and `s`, and `* + ? {n,m}` with or without `?`. It refuses every other
construct and names it: back references, `\\p{...}`, `&&` and classes in classes, `*+` and `(?>...)`, other flags. For
letters outside ASCII, `\\b` works as in Java 19 and later. Kafka 4.0 no longer reads `topics.blacklist`,
`groups.blacklist` and `config.properties.blacklist`; mmtool adds them to the excludes, with a warning.

A negative interval means never, as in MirrorMaker 2; 0 is refused. MirrorMaker 2 accepts some numbers that are out of
mmtool's range (`admin.timeout.ms`, an interval, `offset.lag.max`). For such a number mmtool uses the nearest one in its
range, with a warning.
"""  # noqa: E501 - Markdown: a table row is one line

_ALIASES = """\
## Aliases in topic names

Topic names contain the aliases of `clusters`. As in MirrorMaker 2, the file can set another alias for topic names. For
the source of a flow, the first of these keys that is set wins:

1. `SOURCE->TARGET.source.cluster.alias`
2. `ALIAS.alias`
3. `source.cluster.alias`

For the target, the keys are the same with `target.cluster.alias`. The alias that is found this way is used:

- in the names of mirrored topics, checkpoints topics and offset-syncs topics
- in heartbeats
- as the value of `${source}` in `mmtool.topic.rename.format`

The alias of `clusters` stays in `mm2-offsets.ALIAS.internal`, in the group of MirrorMaker 2's workers and in the names
of mmtool's internal topics. With a blank `replication.policy.separator` and blank aliases topics keep their names.

To find the source cluster of a mirrored topic, mmtool splits the topic's name into alias and topic. If the name begins
with aliases of this file's flows, the longest of them is the alias. Otherwise the alias ends at the first separator, as
in MirrorMaker 2. If an alias contains the separator, mmtool refuses flows in both directions between the two clusters,
because MirrorMaker 2 would mirror topics back under ever longer names: set `ALIAS.alias`. A slash in an alias is
written as a dash in topic names.
"""

_SECURITY = """\
## Connecting

| key | meaning |
|---|---|
| `bootstrap.servers` | comma list of host:port; needed for each cluster; a `PROTOCOL://` prefix is ignored |
| `security.protocol` | {protocols} |
| `sasl.mechanism` | {mechanisms} |
| `sasl.jaas.config` | of `PlainLoginModule` or `ScramLoginModule`: user name and password are taken from it; of `OAuthBearerLoginModule` or `IAMLoginModule`: see [tokens](../how-to/log-in-with-tokens.md) |
| `sasl.username`, `sasl.password` | user name and password as keys of their own; both together win over `sasl.jaas.config` |
| `sasl.login.callback.handler.class` | with OAUTHBEARER: Kafka's handler (the default), Strimzi's or MSK's |
| `sasl.oauthbearer.token.endpoint.url` | with OAUTHBEARER: where tokens are granted; a `file:` URL names a file with a token |
| `sasl.oauthbearer.client.credentials.client.id`, `.client.secret`; `sasl.oauthbearer.scope` | with OAUTHBEARER: the client, and what it asks for; they win over `sasl.jaas.config` |
| `sasl.oauthbearer.header.urlencode`, `sasl.oauthbearer.sub.claim.name` | as in Kafka |
| `sasl.login.connect.timeout.ms`, `sasl.login.read.timeout.ms` | of the token endpoint; default 5000 |
| `sasl.login.retry.backoff.ms`, `sasl.login.retry.backoff.max.ms` | the first and the longest wait after a failed request for a token; default 100 and 10000 |
| `sasl.login.refresh.window.factor` | the part of a token's life after which a new one is asked for; default 0.8 |
| `ssl.truststore.location`, `.password`; or `.certificates` | trusted certificates: a JKS, PKCS12 or PEM store, or PEM text; not set: the system's trusted certificates |
| `ssl.keystore.location`, `.password`; or `.certificate.chain` and `.key` | the client's private key and certificate chain, in the same formats |
| `ssl.ca.location`, `ssl.certificate.location`, `ssl.key.location` | the same as single PEM files |
| `ssl.key.password` | password of the private key; default in a JKS or PKCS12 store: the store's password |
| `ssl.endpoint.identification.algorithm` | `https`; empty: host names are not checked |
| `ALIAS.{cluster_id}` | the id that the cluster must answer with |

- PEM text may stand in one line, or on continuation lines.
- mmtool finds the format of a store from its content. `ssl.truststore.type` and `ssl.keystore.type` are accepted and
  not needed.
- mmtool reads some stores with the `java` that Spark runs on, in memory: JKS stores, PKCS12 stores whose key has a
  password of its own, and PKCS12 key stores that are used as trust stores. If a trust store contains a private key with
  its certificate chain, mmtool trusts only the first certificate of the chain, as Java does.
- Stores are read on the host where the command runs: Spark's executors need no copy.
- Stores of other types (JCEKS, BKS) are refused; the error shows the command that converts them.
- A wrong password is an error. A store without the needed key or certificate is an error.
- An expired certificate is an error in `config check`, because brokers refuse the connection. In all other commands it
  is a warning, because an emergency failover from that cluster does not need the connection.
- OpenSSL, unlike Java, trusts no intermediate or server certificate by itself: a trust store must hold the root.
- Write secrets as placeholders. mmtool never shows a secret.
"""  # noqa: E501 - Markdown: a table row is one line

_TAIL = """\
## Client settings

These keys with the prefix `ALIAS.consumer.`, `ALIAS.producer.` or `ALIAS.admin.` have an effect:

- security settings
- `isolation.level` and `auto.offset.reset` of the source's consumer (`by_duration:P7D` as well)
- these connection settings, under `consumer.` and `admin.`. They apply to reading stored state (topics of mmtool and
  MirrorMaker 2) and to administration only, not to fetching and writing batches: `client.dns.lookup`,
  `connections.max.idle.ms`, `metadata.max.age.ms`, `receive.buffer.bytes`, `send.buffer.bytes`, `reconnect.backoff.*`,
  `retry.backoff.*`, `socket.connection.setup.timeout.ms`

For a number that librdkafka does not accept, mmtool uses the nearest one that it accepts, with a warning. Values that
Java's clients refuse are refused. All other client settings have no effect, because mmtool copies whole record batches
without a Kafka consumer or producer.

## Keys without effect

mmtool accepts Kafka Connect's keys (`tasks.max`, `config.storage.*`, converters, REST) and reports them as not
needed. It reads two of them to find a running MirrorMaker 2 and its source offsets: `TARGET.group.id`, and
`offset.storage.topic` (the global key wins over `TARGET.offset.storage.topic`).

mmtool refuses keys that would change what is copied: `transforms`, filter classes and naming policies other than
Kafka's own. Keys that Kafka 4.0 removed and unknown keys get a warning, with the nearest known name.
"""


def reference_page() -> str:
    """The whole reference page, as Markdown."""
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
    unit = (
        f"| `{UNIT_PREFIX}NAME.topics`, `.groups` |  |  | Patterns of topics and groups, for `--unit NAME`. |"
    )
    return "\n".join(["| key | default | values | meaning |", "|---|---|---|---|", *rows, *free, unit]) + "\n"


def _code(text: str | None) -> str:
    return "" if text is None else "`" + text.replace("|", "\\|") + "`"


def _range(key: Key) -> str:
    if key.choices:
        return ", ".join(f"`{choice}`" for choice in key.choices)
    return f"{key.minimum} to {key.maximum}" if key.kind == "integer" else ""
