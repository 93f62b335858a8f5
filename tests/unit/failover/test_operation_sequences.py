"""Operations one after the other: what is marked and moved is what those that were not undone have left.

The model knows no marks: it replays the operations that stand. So to roll back a failover is to have never run it.
"""

import time
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from kit.operations import KilledError, Killing, heard
from kit.there_and_back import ThereAndBack
from mmtool.errors import MmtoolError
from mmtool.failover.modes import drill, emergency, failback, planned_mode
from mmtool.failover.operation.marks import rehearse_release, release_marks
from mmtool.failover.operation.records import in_journal_order
from mmtool.failover.operation.recovery import roll_forward, take_back
from mmtool.failover.operation.states import Trigger
from mmtool.plan.failover.steps import Mode
from mmtool.plan.groups.facts import GroupSelection

pytestmark = pytest.mark.long

TOPIC = "orders"
UNDONE = "failback undone"


@dataclass
class World:
    """Groups app and late read one topic; ``stands`` has what was done and not undone, in order."""

    scene: ThereAndBack
    stands: list[tuple[str, tuple[str, ...], str]] = field(default_factory=list)

    def recorded(self):
        return in_journal_order(self.scene.journal.entries())

    def do(self, word):
        """Whether it was done; what is refused changes nothing."""
        try:
            return getattr(self, word)()
        except MmtoolError:
            return False
        finally:
            self.scene.lock.leave()

    def planned(self):
        return self._moved(Mode.PLANNED, "app")

    def planned_of_late(self):
        return self._moved(Mode.PLANNED, "late")

    def emergency(self):
        return self._moved(Mode.EMERGENCY, "app")

    def emergency_of_late(self):
        return self._moved(Mode.EMERGENCY, "late")

    def failback(self):
        return self._moved(Mode.FAILBACK, "app")

    def failback_of_both(self):
        return self._moved(Mode.FAILBACK, "app", "late")

    def drill(self):
        rehearsal = drill.rehearse(self.scene.look(), GroupSelection(("app",)))
        return drill.execute(rehearsal, self.scene.context(rehearsal)).operation.error is None

    def release(self):
        found = rehearse_release(self.scene.side, self.scene.journal, ())
        release_marks(found, self.scene.journal, self.scene.marks, self.scene.lock, "ann@host-1", 0)
        if found.topics:
            self.stands.append(("release", (), ""))
        return bool(found.topics)

    def resumed(self):
        """An emergency that dies when its offsets are written, and is resumed."""
        before = {one.operation_id for one in self.recorded()}
        try:
            done = self._moved(Mode.EMERGENCY, "app", kill=15)
        except KilledError:
            done = False
        self.scene.lock.leave()
        (found,) = [one for one in self.recorded() if one.operation_id not in before] or [None]
        if done or found is None or not (found.may(Trigger.RESUME) and found.head.point_of_no_return_passed):
            return False
        rehearsal = self._rehearsal(Mode.EMERGENCY, ("app",))
        rehearsal = replace(rehearsal, plan=found.operation.plan)
        context = self.scene.context(rehearsal, since=found)
        ended, _ = roll_forward(found, context)
        assert ended.error is None
        self.stands.append((Mode.EMERGENCY, ("app",), found.operation_id))
        return True

    def rollback_of_late(self):
        return self.rollback(("late",))

    def rollback(self, *only):
        """The last one that can be."""
        may = [one for one in self.recorded() if one.may(Trigger.ROLL_BACK) and one.mode is not Mode.DRILL]
        found = [one for one in may if not only or one.group_names in only]
        if not found:
            return False
        one = found[-1]
        home = one.mode is Mode.FAILBACK
        rehearsal = replace(self._rehearsal(Mode.EMERGENCY, ("app",)), plan=one.operation.plan)
        context = self.scene.context(rehearsal, since=one, home=home)
        take_back(self.scene.taking_back(one, Trigger.ROLL_BACK, context.destination), context)
        at = [name for _, _, name in self.stands].index(one.operation_id)
        _, moved = model(self.stands[:at])
        unknown = any(not moved[group] for group in one.group_names)
        undone = (UNDONE, one.group_names, one.operation_id if unknown else "")
        self.stands[at : at + 1] = [undone] if home else []
        return True

    def _rehearsal(self, mode, groups):
        chosen = GroupSelection(groups)
        match mode:
            case Mode.PLANNED:
                return planned_mode.rehearse(self.scene.look(), chosen)
            case Mode.EMERGENCY:
                return emergency.rehearse(self.scene.side, chosen)
            case _:
                return failback.rehearse(self.scene.both, chosen)

    def _moved(self, mode, *groups, kill=None):
        rehearsal = self._rehearsal(mode, groups)
        context = self.scene.context(rehearsal, home=mode is Mode.FAILBACK)
        context = context if kill is None else heard(context, Killing(kill))
        match mode:
            case Mode.PLANNED:
                ended = planned_mode.execute(rehearsal, context)
            case Mode.EMERGENCY:
                ended = emergency.execute(rehearsal, context)
            case _:
                ended = failback.execute(rehearsal, context, folder=self.scene.folder)
        if ended.operation.error is None:
            self.stands.append((mode, groups, rehearsal.plan.operation_id))
        return ended.operation.error is None


def model(stands):
    """Who holds the topic, and who holds each group, after these operations: names, the first one first.

    A failback of some groups leaves the mark of a topic that others read, in whoever's name it is. One that is rolled
    back leaves its groups moved: in the name of what had moved them, if that is known. Its topics are marked as before.
    """
    holding, moved = [], {"app": [], "late": []}
    for mode, groups, name in stands:
        if mode == "release":
            holding = []
        elif mode == UNDONE:
            for group in groups:
                moved[group] = moved[group] or [name][: bool(name)]
        elif mode is Mode.FAILBACK:
            for group in groups:
                moved[group] = []
            holding = [(group, other) for group, other in holding if group not in groups]
        else:
            for group in groups:
                moved[group].append(name)
                if mode is Mode.EMERGENCY:
                    holding.append((group, name))
    return [name for _, name in holding], moved


def faults(world):
    """What the marks say otherwise than the model."""
    view = world.scene.state.view
    holding, moved = model(world.stands)
    mark = view.failed_over.get(TOPIC)
    if (mark is not None) != bool(holding):
        yield f"marked {mark}, held by {holding}"
    elif mark is not None and mark.operation_id not in [name for _, _, name in world.stands]:
        yield f"marked by {mark.operation_id}, which does not stand"
    for group, names in moved.items():
        by = view.moved[group].operation_id if group in view.moved else None
        if by != (names[-1] if names else None):
            yield f"{group} moved by {by}, held by {names}"


@pytest.fixture
def worlds(tmp_path):
    def make(number):
        folder = tmp_path / str(number)
        folder.mkdir()
        scene = ThereAndBack(folder)
        scene.folder = folder
        scene.state.view = type(scene.state.view)(flow=scene.state.view.flow)
        scene.target.groups.committed.clear()
        scene.mirrored(TOPIC, 0, [(0, 0, 15)], 15)
        for group in ("app", "late"):
            scene.told(group, TOPIC, (8, 8), at_ms=int(time.time() * 1000))
            scene.commits(group, TOPIC, 8)
        return World(scene)

    return make


WORDS = ("planned", "emergency", "failback", "drill", "rollback", "release", "resumed")
LONGER = [
    ("emergency", "failback", "emergency", "rollback"),
    ("emergency", "failback", "rollback", "rollback"),
    ("planned", "failback", "rollback", "rollback"),
    ("emergency", "failback", "emergency", "failback", "rollback", "rollback", "rollback"),
    ("emergency", "emergency_of_late", "failback", "rollback"),
    ("emergency", "emergency_of_late", "failback", "rollback_of_late"),
    ("emergency", "emergency_of_late", "failback", "rollback", "rollback", "rollback"),
    ("emergency", "emergency_of_late", "failback_of_both", "rollback", "rollback", "rollback"),
    ("emergency", "release", "emergency_of_late", "rollback", "rollback"),
    ("emergency", "emergency_of_late", "rollback", "release", "emergency", "rollback"),
    ("planned", "emergency", "rollback", "failback", "rollback"),
    ("emergency", "release", "resumed", "rollback", "failback"),
    ("emergency", "release", "failback", "rollback"),
]


def run(worlds, sequences):
    wrong, done = [], Counter()
    for number, words in enumerate(sequences):
        world = worlds(number)
        for at, word in enumerate(words):
            done[word] += world.do(word)
            if found := list(faults(world)):
                wrong.append((words[: at + 1], found))
                break
    return wrong, done


def test_after_every_sequence_of_operations_the_marks_are_those_of_the_operations_that_stand(worlds):
    """In threes, looked at after each: so in twos as well. With nothing to undo yet, a sequence is a shorter one."""
    first = [word for word in WORDS if word not in {"rollback", "release"}]
    wrong, done = run(worlds, [*product(first, WORDS, WORDS), *LONGER])
    assert wrong == []
    assert all(done[word] for word in WORDS), done


def test_a_topic_that_a_failback_marked_for_the_groups_that_stay_is_mirrored_again_when_it_is_rolled_back(
    worlds,
):
    world, marked = worlds(0), []
    for word in ("planned", "planned_of_late", "failback", "rollback"):
        assert world.do(word), word
        marked.append(TOPIC in world.scene.state.view.failed_over)
    assert marked == [False, False, True, False]
