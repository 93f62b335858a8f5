"""The page: one file, nothing loaded, everything escaped, what is wrong first."""

import html
import json
import re
import subprocess
from html.parser import HTMLParser

import pytest

from kit.schemas import misfits
from mmtool.evidence.document import Fact, Moment, PageKind, PageVerdict, Tone, canonical, rows_hash
from mmtool.evidence.page import page_bytes, render
from tests.unit.evidence.conftest import AT, compared, evidence_of

HOSTILE = """</script><script>alert(1)</script><img src=x onerror="alert(1)">'&amp;\u202e\x1b[31m\ud800"""


class Elements(HTMLParser):
    """Every element and attribute of a page, and whether each one is closed."""

    VOID = frozenset({"meta"})

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.stack = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag


def rendered(evidence):
    return page_bytes(evidence.document(AT), None).decode()


def test_the_page_is_well_formed_and_loads_and_runs_nothing(signed):
    page = signed.decode()
    found = Elements(page)
    assert found.stack == []
    assert found.tags.count("script") == 1
    assert ("type", "application/json") in found.attributes
    assert {"link", "img", "iframe", "object", "base", "form"}.isdisjoint(found.tags)
    assert not [key for key, _ in found.attributes if key in {"src", "href"} or key.startswith("on")]
    assert not re.search(r"url\(|@import", page)
    assert "default-src 'none'" in page
    assert all(style in page for style in ("@media (prefers-color-scheme: dark)", "@media print", "size: A4"))


def test_the_same_document_gives_the_same_bytes(document, ann):
    assert page_bytes(document, ann) == page_bytes(json.loads(json.dumps(document)), ann)


def test_the_embedded_json_is_what_its_schema_says(document):
    assert misfits("evidence", document) == []


def test_the_embedded_json_is_the_document(document):
    page = page_bytes(document, None).decode()
    embedded = json.loads(re.search(r'id="evidence">(.*?)</script>', page)[1])
    assert {key: embedded[key] for key in document} == document


def test_what_users_name_cannot_become_markup():
    evidence = evidence_of(
        [compared(0, "different", topic=HOSTILE, reason=HOSTILE)],
        title=HOSTILE,
        verdict=PageVerdict("different", Tone.BAD, HOSTILE),
        summary=(Fact("reason", HOSTILE, HOSTILE),),
        figures=(Fact("x", HOSTILE, HOSTILE, HOSTILE),),
        timeline=(Moment(0, HOSTILE, HOSTILE, HOSTILE, HOSTILE),),
        warnings=(HOSTILE,),
    )
    page = rendered(evidence)
    found = Elements(page)
    assert (found.tags.count("script"), found.tags.count("img")) == (1, 0)
    assert html.escape("</script><script>alert(1)</script>") in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert json.loads(re.search(r'id="evidence">([^<]*)</script>', page)[1])["title"] == HOSTILE


def test_partitions_that_differ_stand_before_those_that_do_not():
    rows = [compared(number) for number in range(3000)]
    rows[1500] = compared(1500, "incomplete", missing=7)
    rows[2500] = compared(2500, "different", mutated=1)
    page = rendered(evidence_of(rows))
    different, incomplete, folded = (page.index(word) for word in ("2500</td>", "1500</td>", "<details>"))
    assert different < incomplete < folded
    assert "<summary>2,998 identical partitions</summary>" in page


def test_a_short_list_is_not_folded():
    assert '<details open="">' in rendered(evidence_of([compared(0)]))


def test_a_figure_that_is_not_known_is_not_shown_as_a_number():
    page = rendered(evidence_of([compared(0)], figures=(Fact("rpo_records", "records lost", None),)))
    assert re.search(r"records lost</th><td>not known</td>", page)


def test_transactions_are_shown_once_although_each_of_their_partitions_has_them():
    half = {
        "producer_id": 4711,
        "producer_epoch": 3,
        "certain": True,
        "partitions": [
            {"topic": "a", "partition": 0, "first_offset": 1, "last_offset": 2, "arrived": "all"},
            {"topic": "a", "partition": 1, "first_offset": 8, "last_offset": 9, "arrived": "none"},
        ],
    }
    page = rendered(evidence_of([compared(n, half_mirrored=[half]) for n in (0, 1)]))
    assert page.count("8 to 9</td>") == 1


def test_an_unsigned_page_says_so(document):
    assert "This page is not signed" in render({**document, "signed_with": None})


def test_secrets_are_hidden_in_free_text_and_names_stay_as_they_are():
    evidence = evidence_of(
        [compared(0, topic="hunter2-topic", reason="it said hunter2")],
        summary=(Fact("reason", "reason", "because of hunter2"), Fact("groups", "groups", "hunter2-group")),
        timeline=(Moment(0, "ann@host-1", "step failed", "sasl.password=abc"),),
        warnings=("hunter2",),
        kind=PageKind.VERIFY,
    )
    document = evidence.document(AT, {"hunter2": "[hidden]"})
    assert document["rows"][0]["topic"] == "hunter2-topic"
    assert document["rows"][0]["reason"] == "it said [hidden]"
    assert [fact["value"] for fact in document["summary"]] == ["because of [hidden]", "hunter2-group"]
    assert document["timeline"][0]["detail"] == "sasl.password=[hidden]"
    assert document["warnings"] == ["[hidden]"]


def test_the_canonical_form_can_stand_in_a_page_and_reads_back_the_same():
    document = {"b": HOSTILE, "a": [1, 2.5, None, True, {"z": "ü", "y": "<"}]}
    text = canonical(document)
    assert text.isascii()
    assert not {*b"<>&\n"} & {*text}
    assert json.loads(text) == document
    assert text.startswith(b'{"a":')


@pytest.mark.parametrize("topic", ["orders", "bestellungen-ü"])
def test_the_digest_of_the_rows_is_what_jq_and_sha256sum_compute(tmp_path, topic):
    rows = [compared(0, topic=topic, lag_records=None, seconds=1.25), compared(1, nested={"b": [], "a": {}})]
    (tmp_path / "result.json").write_text(json.dumps({"data": rows}))
    line = "jq -cS .data result.json | sha256sum"
    told = subprocess.run(line, shell=True, check=True, capture_output=True, text=True, cwd=tmp_path)  # noqa: S602 - as the page says it
    assert told.stdout.split()[0] == rows_hash(rows).sha256
