"""Filters mean what Java's regular expressions mean, or are refused."""

import pickle
import random

import pytest

from mmtool.config import NameFilter
from mmtool.config.javaregex import PatternRefusedError, compile_java

NAMES = [
    "",
    "a",
    "A",
    "ab",
    "abc",
    "a.b",
    "orders",
    "Orders",
    "orders-1",
    "orders.internal",
    "__consumer_offsets",
    "payments_v2",
    "x9",
    "9",
    "zz",
    "a\n",
    "é",
    "ß",
    "K",
    "٣",
    "😀",
    "a b",
    "[",
    "]",
    "-",
    "&",
    "^",
]
IN_USE = [
    ".*",
    "",
    "orders",
    r".*[\-\.]internal",
    r".*\.replica",
    "__.*",
    "console-consumer-.*",
    "(orders|payments).*",
    "(?!__).*",
    "(?i)ORDERS.*",
    "(?i:o)rders",
    r"\Qa.b\E",
    r"\Qa.b",
    "[a-z&&[^aeiou]]+",
    "[^a-z&&[aeiou]]",
    "[a-c[x-z]]*",
    r"[\w&&[^\d]]+",
    r"\p{Lu}\p{Ll}+",
    r"\p{Alpha}*+\d",
    r"\p{IsAlphabetic}",
    r"\P{ASCII}",
    r"(?<first>.)\k<first>",
    r"(.)\1",
    "o++rders",
    "(?>a|ab)c",
    "a{1,2}+.*",
    r"\x61\u0062\0143?",
    "(?s).*",
    ".+",
    r"\S+",
    r"\bab\b",
    "^orders$",
    "a|",
    "[]a]",
    "[a-]",
    r"(?<=a)b|a(?<!b)b",
]
NOT_JAVA = [
    "(",
    ")",
    "*a",
    "a**",
    "[",
    "[a",
    "[z-a]",
    "a{2,1}",
    "a{,2}",
    r"\y",
    r"\k<n>",
    "(?<1>a)",
    r"\p{Nope}",
    "(?q)",
]


@pytest.mark.parametrize("pattern", IN_USE)
def test_a_pattern_matches_exactly_the_names_that_java_matches(pattern, java_regex):
    names = [name for name in NAMES if name.isascii() or "\\b" not in pattern]
    ours = [compile_java(pattern).fullmatch(name) is not None for name in names]
    assert ours == java_regex.matches(pattern, names)


@pytest.mark.parametrize("pattern", NOT_JAVA)
def test_a_pattern_that_java_refuses_is_refused(pattern, java_regex):
    assert java_regex.matches(pattern, []) is None
    with pytest.raises(PatternRefusedError):
        compile_java(pattern)


@pytest.mark.parametrize(
    "pattern", [r"\X", r"\R", "(?x)a b", "(?m)^a", "(?U)a", r"(?i)(a)\1", r"\p{javaLowerCase}", "[a&&]"]
)
def test_what_has_no_equal_here_is_refused_rather_than_read_differently(pattern, java_regex):
    assert java_regex.matches(pattern, ["a"]) is not None
    with pytest.raises(PatternRefusedError):
        compile_java(pattern)


def words(text):
    return text.split()


IN_CLASS = words(r"a B 9 . - ^ & ] a-c A-Z 0-9 !-/ a- \d \W \h \p{Lu} \P{L} \] \- \x41 \n \Qa-\E \b [ &&")
ATOMS = words(
    r"a b c x z A S 0 9 _ - . \. \- \\ \t \x41 \u0062 \041 \x{1F600} \cA \e ] } & , 😀 é ß { * "
    r"\d \w \s \S \D \W \h \H \v \V \A \z \Z ^ $ \G \p{L} \p{Lower} \p{Punct} \PL \p{IsLatin} "
    r"\p{sc=Greek} \Qa.b\E \Q+\E \1 \2 \11 \k<n> (?i) (?s) (?-i) (?x) \X"
)
OPENINGS = words("( ( (?: (?: (?> (?= (?! (?<= (?<! (?<n> (?i: (?s-i:")
COUNTS = words("* + ? {2} {0,2} {1,} {,2}")


class PatternMaker:
    """Random patterns of all that a filter may hold, right ones and wrong ones."""

    def __init__(self, seed):
        self._random = random.Random(seed)

    def pattern(self, depth=0):
        return "|".join(self._sequence(depth) for _ in range(self._random.choice([1, 1, 2, 3])))

    def _sequence(self, depth):
        return "".join(self._atom(depth) + self._quantifier() for _ in range(self._random.randint(0, 4)))

    def _atom(self, depth):
        dice = self._random.random()
        if dice < 0.15:
            return self._class()
        if dice < 0.35 and depth < 3:
            return self._random.choice(OPENINGS) + self.pattern(depth + 1) + ")"
        return self._random.choice(ATOMS)

    def _class(self, depth=0):
        items = [
            self._class(depth + 1)
            if self._random.random() < 0.2 and depth < 2
            else self._random.choice(IN_CLASS)
            for _ in range(self._random.randint(1, 4))
        ]
        return f"[{self._random.choice(['', '', '^'])}{''.join(items)}]"

    def _quantifier(self):
        if self._random.random() < 0.6:
            return ""
        return self._random.choice(COUNTS) + self._random.choice(["", "", "?", "+"])


@pytest.mark.parametrize("seed", range(4))
def test_any_accepted_pattern_agrees_with_java_on_every_name(seed, java_regex):
    maker = PatternMaker(seed)
    accepted = 0
    for pattern in (maker.pattern() for _ in range(1000)):
        try:
            compiled = compile_java(pattern)
        except PatternRefusedError:
            continue
        answer = java_regex.matches(pattern, NAMES)
        # Java also refuses a few lookbehinds that are harmless here
        if answer is not None or "(?<" not in pattern:
            assert (pattern, [compiled.fullmatch(name) is not None for name in NAMES]) == (pattern, answer)
            accepted += 1
    assert accepted > 300


def test_an_exclude_wins_over_an_include():
    names = NameFilter((".*",), ("secret.*",))
    assert names.select(["orders", "secret-1", "not-secret"]) == ["orders", "not-secret"]


def test_an_empty_include_matches_nothing_and_an_empty_exclude_excludes_nothing():
    assert [NameFilter(()).accepts(name) for name in ("", "a")] == [False, False]
    assert NameFilter(("a",), ()).accepts("a")


def test_a_name_matches_as_a_whole():
    assert [NameFilter(("orders",)).accepts(name) for name in ("orders", "orders2", "my-orders")] == [
        True,
        False,
        False,
    ]


def test_a_list_is_joined_before_it_is_read_as_in_mm2():
    joined = NameFilter(("(?i)orders", "payments"))
    assert joined.accepts("PAYMENTS")
    assert [NameFilter(("a(b", "c)d")).accepts(name) for name in ("abd", "acd", "ab")] == [True, True, False]


def test_a_refusal_names_the_one_pattern_of_the_list():
    with pytest.raises(PatternRefusedError) as caught:
        NameFilter(("orders", "pay(", "x"))
    assert caught.value.pattern == "pay("
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own bytes
    assert str(copy) == "pay(: a parenthesis is not closed (at the end of the pattern)"


def test_a_brace_is_written_as_a_class_which_needs_no_backslash():
    with pytest.raises(PatternRefusedError, match=r"write \[\{\] for the character"):
        NameFilter(("a{b",))
    assert NameFilter(("a[{]b",)).accepts("a{b")


def test_a_filter_travels_to_a_spark_worker():
    names = NameFilter((r"\p{Lu}.*",), ("X.*",))
    assert pickle.loads(pickle.dumps(names)) == names  # noqa: S301 - our own bytes
