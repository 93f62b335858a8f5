"""A process that dies at any word of an operation: the journal alone leads on, to the same end, or back."""

import time
from contextlib import suppress
from dataclasses import replace
from itertools import count

import pytest
from hypothesis import settings

from kit.one_name import AT_HOME as ONE_NAME_AT_HOME
from kit.one_name import OneName
from kit.operations import KilledError, Killing, heard
from kit.scene import Scene, promotion_of
from kit.there_and_back import AT_HOME, ORDERS, ThereAndBack
from mmtool.errors import OwnedElsewhereError, UnreachableError
from mmtool.failover.fence.promotion import WithdrawalAsked
from mmtool.failover.modes import emergency, failback, planned_mode
from mmtool.failover.operation.journal import Both
from mmtool.failover.operation.operation import StepState
from mmtool.failover.operation.records import recorded
from mmtool.failover.operation.recovery import roll_forward, take_back
from mmtool.failover.operation.states import OperationState, Trigger, can
from mmtool.plan.failover.acl_rules import Binding
from mmtool.plan.failover.choices import diverged_of
from mmtool.plan.failover.steps import Mode
from mmtool.plan.groups.facts import Commit, GroupSelection
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.long

GROUPS = GroupSelection(("app", "late"))
REMOTE = TopicPartition("east.orders", 0)
FENCED = "fenced"
"""A planned move of which producers are a part."""
PROMOTED, WITHDRAWN = "promoted", "withdrawn"
"""One with a fence whose producers get their rights on the target, and a way home that withdraws them."""
SALVAGED = "salvaged"
"""A way home with ``--diverged topic``."""
STANDARD = settings.get_profile("standard").max_examples
TAIL = [b"v%d" % n for n in range(10, 15)]
MAY = Binding("orders", "LITERAL", "User:alice", "*", "WRITE", "ALLOW")
FENCE = MAY._replace(permission="DENY")


class Away:
    """Both groups go away, planned (with a fence or without) or in an emergency.

    ``app`` has a commit on the target already, and alice may write what they read.
    """

    def __init__(self, directory, mode):
        self.end = {"app": {REMOTE: Commit(50)}, "late": {REMOTE: Commit(60)}}
        self.before = {"app": {REMOTE: Commit(7)}}
        self.mode, self.scene = mode, Scene(directory)
        self.scene.has("orders", 60)
        self.scene.mirrored("orders", 0, [(0, 0, 60)], 60)
        for group, offset in (("app", 50), ("late", 60)):
            self.scene.commits(group, "orders", offset)
            self.scene.told(group, "orders", (offset, offset), at_ms=int(time.time() * 1000))
        self.scene.commits("app", "east.orders", 7, cluster=self.scene.target)
        self.scene.may_write("alice", "orders")
        self.rules_after = {MAY, FENCE} if mode in (FENCED, PROMOTED) else {MAY}
        self.acls_before, self.acls_after = set(), {MAY} if mode == PROMOTED else set()
        self.written = self.scene.target
        self.marks_before = (set(), set())
        self.marks_after = ({"orders"} if mode is Mode.EMERGENCY else set(), {"app", "late"})

    def rehearsed(self, since=None):
        name = since and since.operation_id
        if self.mode is Mode.EMERGENCY:
            return emergency.rehearse(self.scene.side, GROUPS, operation_id=name)
        fence = self.scene.fence(since=since) if self.mode in (FENCED, PROMOTED) else None
        acls = self.scene.promotion(since) if self.mode == PROMOTED else None
        return planned_mode.rehearse(self.scene.look(), GROUPS, operation_id=name, fence=fence, acls=acls)

    def context(self, rehearsal, since=None):
        return self.scene.context(rehearsal, since=since)

    def executed(self, rehearsal, context):
        if self.mode is Mode.EMERGENCY:
            return emergency.execute(rehearsal, context)
        return planned_mode.execute(rehearsal, context)


class Home:
    """Both groups come home after an emergency; ``app`` has a commit of before there."""

    marks_before = ({"orders"}, {"app", "late"})
    marks_after = (set(), set())
    rules_after = frozenset()
    acls_before = acls_after = frozenset()

    def __init__(self, directory, mode):
        self.end, self.before = AT_HOME, {"app": {ORDERS: Commit(8)}}
        self.mode, self.scene, self.folder = mode, ThereAndBack(directory), directory
        self.written = self.scene.source
        self.acls_before = {MAY} if mode == WITHDRAWN else set()
        self.scene.acls.rules |= self.acls_before

    def rehearsed(self, since=None):
        acls = WithdrawalAsked(self.scene.acls, frozenset({MAY}), promotion_of(since))
        name = since and since.operation_id
        return failback.rehearse(self.scene.both, GROUPS, operation_id=name, acls=acls)

    def context(self, rehearsal, since=None):
        return self.scene.context(rehearsal, since=since, home=True)

    def executed(self, rehearsal, context, writer=None):
        return failback.execute(rehearsal, context, folder=self.folder, writer=writer)


class Salvaged(Home):
    """The same with topics of one name; what diverged goes into a topic at home."""

    words = "topic salvage"

    def __init__(self, directory, mode):
        self.end, self.before = ONE_NAME_AT_HOME, {"app": {ORDERS: Commit(8)}}
        self.mode, self.scene, self.folder = mode, OneName(directory), directory
        self.written = self.scene.source
        self.writer = self.scene.writer

    def rehearsed(self, since=None):
        diverged = diverged_of(self.words)
        return failback.rehearse(
            self.scene.both, GROUPS, operation_id=since and since.operation_id, diverged=diverged
        )

    def executed(self, rehearsal, context):
        return super().executed(rehearsal, context, self.scene.writer_for(self.words))

    @property
    def there(self):
        """The tail, as far as it was written."""
        return self.writer.values(TopicPartition("salvage", 0))


def made(directory, mode):
    if mode == SALVAGED:
        return Salvaged(directory, mode)
    return (Home if mode in (Mode.FAILBACK, WITHDRAWN) else Away)(directory, mode)


def committed(case):
    return {group: of for group, of in case.written.groups.committed.items() if of}


def marks(case):
    return (case.scene.marks.failed_over, case.scene.marks.moved)


def killed_at(case, word, *, unheard=False):
    """Execute until the process dies at that word, ``unheard`` by the journal; whether it came to that."""
    rehearsal = case.rehearsed()
    context = case.context(rehearsal)
    killing, journal = Killing(word), context.journal
    log = Both(killing, journal) if unheard else Both(journal, killing)
    try:
        case.executed(rehearsal, replace(context, log=log))
    except KilledError:
        return True
    return False


def found(case):
    (one,) = recorded(case.scene.journal.entries())
    return one


def resumed(case, kill=None):
    """As `mmtool failover resume` does, on another host."""
    one = found(case)
    rehearsal = case.rehearsed(one)
    context = case.context(rehearsal, since=one)
    context = context if kill is None else heard(context, Killing(kill))
    if one.operation.point_of_no_return_passed:
        return roll_forward(one, context, case.scene.fence(since=one), case.scene.acls)[0]
    return case.executed(rehearsal, context).operation


def taken_back(case, event):
    one = found(case)
    rehearse = case.scene.taking_back(one, event, case.written, beside_others=False)
    assert rehearse().refusal is None
    context = case.context(case.rehearsed(one), since=one)
    take_back(rehearse, context, case.scene.fence(since=one), case.scene.acls)


def test_who_was_frozen_between_two_records_that_it_writes_writes_no_more_behind_a_cancel(tmp_path):
    case = Salvaged(tmp_path, SALVAGED)
    rehearsal = case.rehearsed()
    context = case.context(rehearsal)

    def frozen(place, batch, append=case.writer.append):
        case.writer.append = append
        append(place, batch)
        taken_back(case, Trigger.CANCEL)
        context.journal.clock = lambda: time.time() + 60.0

    case.writer.append = frozen
    with pytest.raises(OwnedElsewhereError, match="another process resumed or ended operation"):
        case.executed(rehearsal, context)
    assert case.there == TAIL[:2]
    assert found(case).state is OperationState.CANCELLED


def words(tmp_path, mode):
    """How many words an operation says, and so at how many places it can be killed."""
    if mode not in _SAID:
        _SAID[mode] = next(n for n in count(1) if not killed_at(made(_folder(tmp_path, n), mode), n)) - 1
    return _SAID[mode]


def kills(tmp_path, mode, first=1):
    """Words to be killed at: one of three, others for each mode; `make test-chaos`, with its many examples, has all."""
    step = 1 if settings().max_examples > STANDARD else 3
    return range(first + MODES.index(mode) % step, words(tmp_path, mode) + 1, step)


def _folder(tmp_path, n):
    folder = tmp_path / f"try-{n}-{next(_FOLDERS)}"
    folder.mkdir()
    return folder


_FOLDERS = count(1)
_SAID = {}


MODES = [*(mode for mode in Mode if mode is not Mode.DRILL), FENCED, PROMOTED, WITHDRAWN, SALVAGED]


@pytest.fixture(params=MODES, ids=str)
def mode(request):
    return request.param


@pytest.fixture
def case(tmp_path, mode):
    return made(tmp_path, mode)


def test_killed_before_it_is_on_record_that_it_begins_nothing_has_happened(case):
    assert killed_at(case, 1, unheard=True)
    assert (committed(case), marks(case), case.scene.journal.stored) == (case.before, case.marks_before, {})


@pytest.mark.parametrize("unheard", [False, True], ids=["on record", "not on record any more"])
def test_killed_at_any_word_and_resumed_it_ends_the_same(tmp_path, mode, unheard):
    assert words(tmp_path, mode) >= 18
    for word in kills(tmp_path, mode, 1 + unheard):
        case = made(_folder(tmp_path, word), mode)
        assert killed_at(case, word, unheard=unheard)
        if found(case).state is not OperationState.COMPLETED:
            assert resumed(case).error is None, word
        assert committed(case) == case.end, word
        assert (found(case).state, marks(case)) == (OperationState.COMPLETED, case.marks_after), word
        assert case.scene.fences.rules == case.rules_after, word
        assert case.scene.acls.rules == case.acls_after, word


@pytest.mark.parametrize("unheard", [False, True], ids=["on record", "not on record any more"])
def test_killed_at_any_word_and_taken_back_everything_is_as_it_was(tmp_path, mode, unheard):
    for word in kills(tmp_path, mode, 1 + unheard):
        case = made(_folder(tmp_path, word), mode)
        killed_at(case, word, unheard=unheard)
        standing = found(case).operation.standing
        taken_back(case, Trigger.CANCEL if can(standing, Trigger.CANCEL) else Trigger.ROLL_BACK)
        assert (committed(case), marks(case)) == (case.before, case.marks_before), word
        assert case.scene.fences.rules == case.rules_after - {FENCE}, word
        assert case.scene.acls.rules == case.acls_before, word
        assert found(case).state in {OperationState.CANCELLED, OperationState.ROLLED_BACK}, word


def test_killed_again_while_it_is_resumed_it_is_resumed_again(tmp_path, mode):
    for word in kills(tmp_path, mode):
        case = made(_folder(tmp_path, word), mode)
        killed_at(case, word)
        for again in range(1, 4):
            if found(case).state is not OperationState.COMPLETED:
                with suppress(KilledError):
                    resumed(case, kill=again)
        if found(case).state is not OperationState.COMPLETED:
            assert resumed(case).error is None, word
        assert committed(case) == case.end, word
        assert case.scene.fences.rules == case.rules_after, word
        assert case.scene.acls.rules == case.acls_after, word


def test_what_was_checked_before_a_crash_is_checked_again(case):
    assert killed_at(case, 6)
    assert not found(case).operation.point_of_no_return_passed
    resumed(case)
    done = [
        entry.body["step"]
        for entry in case.scene.journal.entries()
        if entry.kind == "step" and entry.body["step_state"] == StepState.DONE
    ]
    assert done.count("check_groups") == 2


def killed_while_writing(case):
    """One of two groups has its offsets when the process dies; which one."""
    groups = case.written.groups
    alter, done = groups.alter, []

    def one_only(group, offsets, kind=None):
        if done:
            raise KilledError
        done.append(group)
        return alter(group, offsets, kind)

    groups.alter = one_only
    rehearsal = case.rehearsed()
    context = case.context(rehearsal)
    with pytest.raises(KilledError):
        case.executed(rehearsal, context)
    groups.alter = alter
    return done[0]


def further(case, group, by):
    """Somebody commits for a group where it was, or was going to be, written."""
    at = next(iter(case.end[group]))
    case.written.groups.committed.setdefault(group, {})[at] = Commit(by)
    return at


@pytest.mark.parametrize(
    ("whose", "by", "code"), [("the first's", 77, None), ("the second's", 3, 6), ("both", 3, 6)]
)
def test_a_group_that_has_read_on_meanwhile_has_arrived_and_one_that_was_moved_is_left_alone(
    case, whose, by, code
):
    """Where both were moved, nobody can know whether they went on from what was written."""
    first = killed_while_writing(case)
    others = {"the first's": [first], "the second's": [name for name in case.end if name != first]}
    places = {group: further(case, group, by) for group in others.get(whose, case.end)}
    ended = resumed(case)
    assert (ended.error and ended.error.exit_code, ended.point_of_no_return_passed) == (code, True)
    assert {committed(case)[group][at] for group, at in places.items()} == {Commit(by)}


def test_what_an_earlier_operation_has_left_half_done_is_said_before_the_mirror_is_waited_for(tmp_path):
    case = Away(tmp_path, Mode.PLANNED)
    killed_at(case, 4)
    before, rehearsal = len(case.scene.drained), case.rehearsed()
    ended = case.executed(rehearsal, case.context(rehearsal))
    assert (ended.operation.error.code, len(case.scene.drained)) == ("open_operation", before)


def test_a_step_that_cannot_be_put_on_record_as_done_has_failed_and_is_done_again(tmp_path, mode):
    """The journal goes away while offsets are written: where things stand is told, and it is resumed."""
    case = made(tmp_path, mode)
    groups, journal = case.written.groups, case.scene.journal
    rehearsal, alter = case.rehearsed(), groups.alter
    context = case.context(rehearsal)

    def last_word(group, offsets, kind=None):
        journal.failure = UnreachableError("west has gone away")
        return alter(group, offsets, kind)

    groups.alter = last_word
    ended = case.executed(rehearsal, context).operation
    assert (ended.error.exit_code, ended.standing.state) == (6, OperationState.FAILED)
    assert ended.point_of_no_return_passed
    journal.failure, groups.alter = None, alter
    assert resumed(case).error is None
    assert committed(case) == case.end


def test_resumed_behind_the_point_of_no_return_it_still_tells_what_it_came_to_and_since_it_began(
    tmp_path, mode
):
    case = made(tmp_path, mode)
    killed_while_writing(case)
    one = replace(found(case), began_ms=int(time.time() * 1000) - 90_000)
    context = case.context(case.rehearsed(one), since=one)
    _, cutover = roll_forward(one, context, case.scene.fence(since=one))
    assert cutover.figures.rpo_records == 0
    assert cutover.figures.reread_records == (10 if mode is Mode.EMERGENCY else 0)
    assert 90 <= cutover.figures.rto_seconds < 95


def ended_once(case):
    """Each record of the tail is there once; the mirror passes none over."""
    return (case.there, case.scene.frontier, found(case).tail) == (TAIL, 10, None)


@pytest.mark.parametrize("unheard", [False, True], ids=["on record", "not on record any more"])
def test_killed_at_any_word_no_diverged_record_is_written_twice(tmp_path, unheard):
    for word in range(1 + unheard, words(tmp_path, SALVAGED) + 1):
        case = made(_folder(tmp_path, word), SALVAGED)
        assert killed_at(case, word, unheard=unheard)
        if found(case).state is not OperationState.COMPLETED:
            assert resumed(case).error is None, word
        assert ended_once(case), word
