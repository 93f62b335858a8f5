"""Units: who reads over their border is named, on either side of it."""

from hypothesis import given
from hypothesis import strategies as st

from mmtool.plan.groups.facts import ChosenUnit, GroupSelection, dependencies, select_groups
from mmtool.plan.words import Names

NAMES = Names("east", "west")
SHOP = ChosenUnit("shop", {"app", "mail"}.__contains__, {"orders", "carts"}.__contains__)


def told(read_by, moving=("app", "mail"), unit=SHOP):
    return list(dependencies(unit, read_by, moving, NAMES))


def test_a_unit_that_nobody_reads_across_has_nothing_to_be_told():
    assert told({"app": {"orders"}, "mail": {"carts", "orders"}, "else": {"payments"}}) == []


def test_a_group_that_reads_outside_is_named_with_the_topics_and_with_who_is_left_behind():
    sentences = told({"app": {"orders", "payments"}, "ledger": {"payments"}, "mail": {"payments"}})
    for group, sentence in zip(("app", "mail"), sentences, strict=True):
        assert sentence.startswith(
            f"group {group} of unit shop also reads topics outside the unit (payments)"
        )
        assert "group ledger, which also reads these topics, stays on east" in sentence
        assert sentence.endswith("add it to `mmtool.unit.shop.groups`")


def test_a_group_outside_that_reads_the_units_topics_is_named():
    (sentence,) = told({"app": {"orders"}, "audit": {"orders", "carts", "x"}})
    assert sentence.startswith("group audit stays on east, and reads topics of unit shop (carts, orders)")


def test_of_a_unit_that_names_no_topics_nothing_is_outside():
    assert told({"app": {"x"}, "audit": {"y"}}, unit=ChosenUnit("all", bool, bool, has_topics=False)) == []


@given(
    st.dictionaries(st.sampled_from("abcd"), st.sets(st.sampled_from(["orders", "carts", "x", "y"]))),
    st.sets(st.sampled_from("abcd")),
)
def test_who_is_not_named_reads_on_one_side_alone(read_by, moving):
    sentences = told(read_by, moving)
    named = {sentence.split()[1] for sentence in sentences}
    for group, topics in read_by.items():
        across = topics - {"orders", "carts"} if group in moving else topics & {"orders", "carts"}
        assert (group in named) == bool(across)


def test_a_unit_selects_its_groups_as_far_as_groups_and_groups_exclude_let_them_pass():
    selected = select_groups(GroupSelection(unit=SHOP), ["app", "mail", "else"], lambda name: name != "mail")
    assert (selected.known, selected.excluded) == (("app",), ("mail",))


def test_a_unit_and_named_groups_add_up():
    selected = select_groups(GroupSelection(("else",), unit=SHOP), ["app", "else", "other"], bool)
    assert selected.known == ("app", "else")
    assert not GroupSelection(("else",), unit=SHOP).is_one
