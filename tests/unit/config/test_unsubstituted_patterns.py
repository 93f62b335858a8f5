"""A pattern with a variable in it matches nothing, and a key whose every value is refused is refused so as well."""

import pytest

from mmtool.errors import ConfigError

SAID = "contains a variable that was not substituted, and so matches no name; `${env:NAME}` reads the environment"


@pytest.mark.parametrize("key", ["topics", "topics.exclude", "groups", "groups.exclude"])
@pytest.mark.parametrize("pattern", ["prod-$ENV-.*", "prod-<env>-.*", "foo-%ENV%-x", "(a|b$ENV)"])
def test_a_pattern_whose_variable_was_not_substituted_is_told_of(load, key, pattern):
    (warning,) = load(f"A->B.{key} = orders, {pattern}\n").warnings
    assert warning.endswith(f"A->B.{key}: `{pattern}` {SAID}")


@pytest.mark.parametrize(
    "pattern",
    [
        "(?<name>a)b",
        "(?<=a)b|(?<!c)d",
        "a$|b",
        "(a|b$)",
        "a$",
        "\\\\$ENV",
        "[$A]b",
        "[a$B]",
        "\\\\Qa$b\\\\E",
        "[^]$A]x",
    ],
)
def test_signs_of_a_regular_expression_are_no_variable(load, pattern):
    assert load(f"A->B.topics = {pattern}\n").warnings == ()


@pytest.mark.parametrize(
    "line",
    [
        "A->B.transforms = ${T}",
        "transforms = ${T}",
        "A->B.topic.filter.class = ${T}",
        "A->B.group.filter.class = ${T}",
        "config.property.filter.class = $T",
    ],
)
def test_a_variable_in_a_key_that_mmtool_refuses_is_refused(load, line):
    with pytest.raises(ConfigError, match="not substituted"):
        load(f"{line}\n")
