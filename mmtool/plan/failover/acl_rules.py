"""ACL rules as data: which resource they apply to, whom they allow or deny, and how ``kafka-acls.sh`` names them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, TypedDict

from mmtool.plain_text import shell_line, shell_word
from mmtool.translation.types import UNKNOWN, Unknown

TOPIC = "TOPIC"
TRANSACTIONAL_ID = "TRANSACTIONAL_ID"
CLUSTER = "CLUSTER"

LITERAL = "LITERAL"
PREFIXED = "PREFIXED"
EVERY_TOPIC = "*"
"""As the name of a literal rule: every resource of the rule's kind."""
EVERYBODY = "User:*"
ANY_HOST = "*"

_WRITES = frozenset({"WRITE", "ALL"})
"""The operations of rules that allow or deny writing a topic; IDEMPOTENT_WRITE is a right on the cluster alone."""
_OPTIONS = {TOPIC: "--topic", "GROUP": "--group", TRANSACTIONAL_ID: "--transactional-id"}


class AclRow(TypedDict):
    """An ACL of a producer that an operation creates or removes.

    Attributes:
        principal: Whom it is for.
        host: From where; `*` for every host.
        operation: What it allows, as `WRITE`.
        resource: The kind of resource, as `TOPIC`.
        name: The resource's name, or a prefix of names.
        pattern: `LITERAL` or `PREFIXED`.
    """

    principal: str
    host: str
    operation: str
    resource: str
    name: str
    pattern: str


class Binding(NamedTuple):
    """One ACL rule, in Kafka's words; plain strings, so that a journal can hold it.

    Attributes:
        name: A topic or another resource, ``*`` for all of them (with LITERAL only), or a prefix of their names.
        pattern: ``LITERAL`` or ``PREFIXED`` (KIP-290).
        operation: As ``WRITE``.
        permission: ``ALLOW`` or ``DENY``.
        resource: The kind of resource, as ``TOPIC``.
    """

    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str
    resource: str = TOPIC

    def __str__(self) -> str:
        host = "" if self.host == ANY_HOST else f" from host {self.host}"
        return f"{self.permission} {self.right} for {self.principal}{host}"

    @property
    def right(self) -> str:
        """The operation and the resource: ``WRITE on topic orders``."""
        kind = self.resource.lower().replace("_", " ")
        on = f"{kind}s that start with {self.name}" if self.pattern == PREFIXED else f"{kind} {self.name}"
        return f"{self.operation} on {on}"

    def matches(self, name: str, resource: str = TOPIC) -> bool:
        """Whether the rule applies to a topic, or to another resource by its whole name."""
        if self.resource != resource:
            return False
        if self.pattern == PREFIXED:
            return name.startswith(self.name)
        return self.name in {name, EVERY_TOPIC}

    @property
    def gives_write(self) -> bool:
        return self.permission == "ALLOW" and self.operation in _WRITES

    @property
    def takes_write(self) -> bool:
        """Whether the rule denies writing from every host; a rule for one host leaves the others."""
        return self.permission == "DENY" and self.operation in _WRITES and self.host == ANY_HOST

    @property
    def row(self) -> list[str]:
        """The rule as JSON values; for a topic without its kind, as journals have always had it."""
        return list(self[:-1] if self.resource == TOPIC else self)

    @property
    def described(self) -> AclRow:
        """The rule as an object of the output contract."""
        return {
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation,
            "resource": self.resource,
            "name": self.name,
            "pattern": self.pattern,
        }

    @property
    def words(self) -> tuple[str, ...]:
        """The arguments by which ``kafka-acls.sh`` adds or removes the rule, not quoted."""
        whom = self.permission.lower()
        principal = (f"--{whom}-principal", self.principal, f"--{whom}-host", self.host)
        return (*self.resource_words, *principal, "--operation", camel(self.operation))

    @property
    def resource_words(self) -> tuple[str, ...]:
        """The arguments that name the resource."""
        return resource_words(self.resource, self.name, self.pattern)


def resource_words(resource: str, name: str, pattern: str) -> tuple[str, ...]:
    """The arguments by which ``kafka-acls.sh`` names resources, not quoted; kind and pattern as in `Binding`."""
    if resource == CLUSTER:
        return ("--cluster",)
    prefixed = ("--resource-pattern-type", "prefixed") if pattern == PREFIXED else ()
    return (_OPTIONS[resource], name, *prefixed)


def camel(operation: str) -> str:
    """An operation as ``kafka-acls.sh`` and Strimzi write it: ``DescribeConfigs``."""
    return operation.title().replace("_", "")


def acl_command(rule: Binding, bootstrap: str, *, adds: bool = False) -> str:
    """The ``kafka-acls.sh`` command that removes exactly this rule, or adds it."""
    words = shell_line(rule.words)
    how = "--add" if adds else "--remove --force"
    return f"kafka-acls.sh --bootstrap-server {shell_word(bootstrap)} {how} {words}"


@dataclass(frozen=True, slots=True)
class AclFacts:
    """A cluster's ACLs, and mmtool's own place among its principals.

    Attributes:
        bindings: The rules that apply; UNKNOWN where the cluster has no authorizer.
        own: Principals with which mmtool connects.
        own_complete: Whether these are all; the brokers decide the principal of a client certificate.
        may_alter: Whether mmtool may create rules: ALTER on the cluster. UNKNOWN where the broker does not say.
        super_users: UNKNOWN where they are set and hidden, as brokers hide configs of unknown type.
        allows_unruled: ``allow.everyone.if.no.acl.found``; likewise.
    """

    bindings: frozenset[Binding] | Unknown
    own: frozenset[str]
    own_complete: bool
    may_alter: bool | Unknown
    super_users: frozenset[str] | Unknown
    allows_unruled: bool | Unknown

    def without(self, ours: Iterable[Binding]) -> Self:
        """The facts as they would be without some rules, which mmtool created."""
        if self.bindings is UNKNOWN:
            return self
        return replace(self, bindings=self.bindings.difference(ours))


def rows_of(rules: Iterable[Binding]) -> list[list[str]]:
    """Rules as JSON values; `bindings_of` reads them."""
    return [rule.row for rule in rules]


def bindings_of(rows: Iterable[Iterable[str]]) -> tuple[Binding, ...]:
    """Rules from the JSON values of `rows_of`.

    Raises:
        TypeError: The values are not those of rules.
    """
    return tuple(Binding(*row) for row in rows)


def or_show(setting: str, cluster: str) -> str:
    """The part of a remedy for a broker setting that mmtool may not read: let mmtool read it."""
    return (
        f"; or, if {setting} is false on {cluster}, grant mmtool's principal DESCRIBE_CONFIGS on the cluster, so that"
        " mmtool can read it"
    )
