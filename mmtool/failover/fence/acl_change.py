"""Create ACLs on every broker of a cluster or not at all, and remove exactly these again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmtool.errors import (
    MmtoolError,
    NotAuthorisedError,
    PartlyAppliedError,
    RefusedError,
    UnreachableError,
)
from mmtool.kafka.ports import NOT_ON_EVERY_BROKER
from mmtool.plain_text import shell_line, shell_word
from mmtool.plan.failover.acl_rules import acl_command
from mmtool.plan.words import ID_PLACEHOLDER, SHOWS_ID, few, joined, then

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from mmtool.kafka.ports import AclPort, Problem
    from mmtool.plan.failover.acl_rules import Binding

_DENIED = "CLUSTER_AUTHORIZATION_FAILED"
_NOT_MADE = {
    _DENIED: "grant mmtool's principal ALTER on the cluster {alias}",
    NOT_ON_EVERY_BROKER: "restart that broker of {alias}, or wait until {alias} no longer lists the broker",
}
"""What to do about an ACL that a broker refuses or does not apply, by the problem's name; else `_OTHERWISE`."""
_OTHERWISE = "read the logs of the brokers of {alias}, which have the cause"


@dataclass(frozen=True, slots=True)
class AclUse:
    """How messages name some ACLs.

    Attributes:
        name: As ``the fence``.
        acls: As ``the fence's DENY ACLs``.
        one: One of them, as ``a DENY for WRITE``.
        code: How error codes begin, as ``fence``.
        is_right: The ACLs are what was asked for, so that a missing right of mmtool has the exit code for that.
        remedies: What to do about an ACL that cannot be created, by the problem's name, beside `_NOT_MADE`.
        again: The commands that remove ACLs which could not be removed.
    """

    name: str
    acls: str
    one: str
    code: str
    is_right: bool = False
    remedies: Mapping[str, str] = field(default_factory=dict)
    again: str = (
        f"remove the cause, then run `mmtool failover cancel {ID_PLACEHOLDER} -c FILE --execute`, or if offsets are"
        f" already written, `mmtool failover rollback {ID_PLACEHOLDER} -c FILE --execute`{SHOWS_ID}"
    )


@dataclass(frozen=True, slots=True)
class AclChange:
    """ACLs that an operation creates on a cluster.

    They must be in the journal before `create`: after a crash in it, `remove` removes them. A second call continues
    where the first one ended.

    Attributes:
        port: The cluster.
        acls: The rules; all of them count as created by the operation.
        use: What they are for.
    """

    port: AclPort
    acls: Collection[Binding]
    use: AclUse

    def create(self, check: Callable[[], None] = lambda: None) -> None:
        """Create the ACLs on every broker and check them, or remove those that were created and raise.

        Raises:
            RefusedError, NotAuthorisedError: An ACL could not be created, or ``check`` raises. No ACL is left.
            PartlyAppliedError: One of these, and some ACLs could not be removed; they are listed.
            UnreachableError: The cluster did not answer. It has none of the ACLs now, but may still create one that
                was requested.
        """
        try:
            self.restore()
            check()
        except BaseException as error:  # a Ctrl-C as well
            self._take_back(error)
            raise

    def restore(self) -> None:
        """Create the ACLs on every broker; those that were created stay if others fail.

        Raises:
            RefusedError, NotAuthorisedError: An ACL could not be created.
            UnreachableError: The cluster did not answer.
        """
        problems = self.port.create(self.acls)
        if problems:
            raise self._not_created(problems)

    def remove(self) -> None:
        """Remove exactly these ACLs; those that no longer exist are skipped, so a second call is harmless.

        Raises:
            PartlyAppliedError: Some could not be removed; they are listed, with the command for the first.
            UnreachableError: The cluster does not answer: all of them may still exist.
        """
        left = self.port.remove(self.acls) if self.acls else {}
        if left:
            raise self._left(left, self.use.name)

    def _take_back(self, why: BaseException) -> None:
        try:
            left: Mapping[Binding, object] = self.port.remove(self.acls) if self.acls else {}
        except MmtoolError as error:
            left = dict.fromkeys(self.acls, error)
        if left:
            raise self._left(left, f"{str(why) or 'interrupted'}; {self.use.acls}") from why
        may_come = isinstance(why, UnreachableError) and not isinstance(why, NotAuthorisedError)
        if self.acls and may_come:  # without an answer, the request may be under way in the cluster
            assert isinstance(why, UnreachableError)
            raise self._may_come(why) from why

    def _may_come(self, why: UnreachableError) -> UnreachableError:
        listed = shell_line(next(iter(self.acls)).resource_words)
        return UnreachableError(
            f"{why.message}; {self.port.alias} has none of {self.use.acls} now, but may still create them",
            remedy="list the ACLs in two minutes with `kafka-acls.sh --bootstrap-server"
            f" {shell_word(self.port.servers)} --list {listed}`; if the list has {self.use.one} that this"
            " operation created, remove that ACL",
        )

    def _left(self, left: Mapping[Binding, object], what: str) -> PartlyAppliedError:
        first, problem = next(iter(left.items()))
        return PartlyAppliedError(
            f"{what} could not be removed on {self.port.alias}: {few(list(left))} may still exist ({problem})",
            remedy=f"{self.use.again}; an administrator can also remove the ACLs, the first with:"
            f" `{acl_command(first, self.port.servers)}`",
            code=f"{self.use.code}_left",
        )

    def _not_created(self, problems: Mapping[Binding, Problem]) -> MmtoolError:
        remedies, names = {**_NOT_MADE, **self.use.remedies}, [problem.name for problem in problems.values()]
        todo = joined(
            *dict.fromkeys(remedies.get(name, _OTHERWISE).format(alias=self.port.alias) for name in names)
        )
        said = few([f"{binding}: {problem}" for binding, problem in problems.items()], 3)
        kind = NotAuthorisedError if self.use.is_right and set(names) == {_DENIED} else RefusedError
        return kind(
            f"{self.use.name} on {self.port.alias} could not be set: {said}",
            remedy=todo if set(names) <= set(self.use.remedies) else then(todo),
            code=f"{self.use.code}_failed",
        )
