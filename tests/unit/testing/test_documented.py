"""Console blocks as `kit.doc_blocks` reads, compares and renews them."""

import pytest

from kit.doc_blocks import Label, Typed, blocks_of, difference, files_of, updated, write_back

PAGE = """\
# A page

<!-- scene: shop width=100 -->
```console
$ mmtool status   # who runs it
east->west: lag 3
...
$ mmtool failover list
```

```console
...
the end
```
"""


@pytest.fixture
def page(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(PAGE, encoding="utf-8")
    return path


def shown(*lines):
    return Typed("mmtool status", lines, 0)


def test_a_block_is_its_label_and_its_commands_with_their_outputs(page):
    first, second = blocks_of(page)
    assert (first.label, second.label) == (Label("scene", "shop", width=100), None)
    assert first.typed == (
        Typed("mmtool status", ("east->west: lag 3", "..."), 1),
        Typed("mmtool failover list", (), 4),
    )
    assert second.typed == (Typed("", ("...", "the end"), 0),)


def test_a_page_s_files_are_its_fences_with_a_name(page):
    page.write_text(
        "<!-- file: a.py -->\n```python\nimport a\n\n```\n\n```python\nimport b\n```\n", encoding="utf-8"
    )
    assert files_of(page) == {"a.py": "import a\n\n"}


@pytest.mark.parametrize("line", ["<!-- scene: shop wide -->", "<!-- stage: shop -->", "scene: shop", ""])
def test_another_comment_is_no_label(line):
    assert Label.of(line) is None


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        (("a", "b"), "a\nb\n"),
        (("a", "..."), "a\nb\nc\n"),
        (("...", "c"), "a\nb\nc\n"),
        (("a", "...", "c", "...", "e"), "a\nb\nc\nd\ne\n"),
        (("operation 20261122T115545Z-5c9cc0",), "operation 20270101T000000Z-abcdef\n"),
        (("SECONDS  RESULT", "0.1s     passed"), "SECONDS  RESULT\n10.1s    passed\n"),
        ((), "whatever\n"),
    ],
)
def test_a_page_may_skip_lines_and_leaves_ids_and_times_open(lines, printed):
    assert difference(shown(*lines), printed) == ""


@pytest.mark.parametrize(
    ("lines", "printed"),
    [
        (("a",), "a\nb\n"),
        (("b",), "a\nb\n"),
        (("a", "...", "c"), "a\nb\n"),
        (("3 records",), "4 records\n"),
        (("GROUP", "app"), "GROUP  TOPIC\napp    orders\n"),
        (("GROUP  LAG", "app      3"), "GROUP  LAG\napp    3\n"),
    ],
)
def test_lines_columns_counts_and_places_are_compared(lines, printed):
    assert difference(shown(*lines), printed).startswith("$ mmtool status\n--- the page")


def test_numbers_are_left_open_where_the_page_says_so():
    assert difference(shown("3 records"), "4 records\n", counts=True) == ""


@pytest.mark.parametrize(
    ("lines", "printed", "wanted"),
    [
        (("lag 3 records", "..."), "lag 4 records\nx\ny\n", ["lag 4 records", "..."]),
        (("...", "moved 1 group", "..."), "x\nmoved 2 groups\ny\n", ["...", "moved 2 groups", "..."]),
        (("took 3 s, lag 1", "..."), "took 5 s, lag 1\nz\n", ["took 3 s, lag 1", "..."]),
        (("...", "the end"), "x\nthe very end\n", ["...", "the very end"]),
    ],
)
def test_a_renewed_block_skips_what_it_skipped_and_keeps_its_own_times(lines, printed, wanted):
    assert updated(shown(*lines), printed) == wanted


def test_lines_are_written_into_the_page_at_their_block(page):
    first, second = blocks_of(page)
    write_back(first, first.typed[0], ["one", "two", "three"])
    write_back(second, second.typed[0], ["..."])
    changed = PAGE.replace("east->west: lag 3\n...\n", "one\ntwo\nthree\n").replace("...\nthe end", "...")
    assert page.read_text(encoding="utf-8") == changed
