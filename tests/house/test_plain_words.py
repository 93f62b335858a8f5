"""What people read has one word for each thing, and it is the field's."""

import ast
from pathlib import Path
from runpy import run_path

WORDS = run_path(str(Path(__file__).with_name("plain_words.py")))
READ = WORDS["files"]((*WORDS["SHIPPED"], *WORDS["PAGES"]))


def test_no_string_and_no_page_has_a_banned_phrase():
    assert WORDS["offences"](READ) == []


def test_the_ban_is_not_empty_and_reads_pages_modules_and_templates():
    assert len(WORDS["BANNED"]) > 30
    assert {file.suffix for file in READ} == WORDS["READ"]


def test_docstrings_of_modules_and_classes_are_read():
    source = (
        '"""One line.\n\nIt is told by\nwhoever runs."""\n\n\n'
        'class A:\n    """Nobody.\n\n    Attributes:\n        lock: A lock.\n    """\n\n'
        '    def run():\n        """Pumps."""\n'
    )
    read = list(WORDS["_docstrings"](ast.parse(source)))
    assert read == [
        (1, "One line."),
        (1, "It is told by whoever runs."),
        (8, "Nobody."),
        (8, "Attributes: A lock."),
    ]
