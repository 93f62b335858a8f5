"""Long values are read in a time that grows with their length: what a damaged file holds keeps nobody waiting."""

import time

import pytest

from mmtool.config.placeholders import Resolver, UnresolvedError
from mmtool.config.properties import read_properties
from mmtool.config.security import pem_document
from mmtool.errors import ConfigError
from mmtool.keystores.certificates import certificates_in

SECONDS = 5.0


@pytest.fixture(autouse=True)
def in_time():
    began = time.process_time()
    yield
    assert time.process_time() - began < SECONDS


def test_a_list_of_50_000_continued_lines_is_read_in_time(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text("topics = " + "topic,\\\n  " * 50_000 + "last\nclusters = A\n")
    entries = read_properties(path).entries
    assert (entries["topics"].value.count("topic,"), entries["clusters"].line) == (50_000, 50_002)


def test_placeholders_that_nothing_closes_are_left_in_time():
    text = "${env:" * 100_000
    assert Resolver.declared_in({}, {}).resolve(text) == text


def test_a_pem_document_whose_blocks_nothing_ends_is_refused_in_time():
    with pytest.raises(ValueError, match="PEM"):
        pem_document("-----BEGIN CERTIFICATE-----\n" * 50_000)


def test_a_pem_block_of_megabytes_is_cut_into_lines_in_time():
    text = "-----BEGIN CERTIFICATE-----" + "A" * (4 << 20) + "-----END CERTIFICATE-----"
    assert pem_document(text).count("\n") == (4 << 20) // 64 + 2


def test_certificates_that_nothing_ends_are_passed_over_in_time():
    assert certificates_in("-----BEGIN CERTIFICATE-----\n" * 50_000) == ()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (r"topics = \ud83d", r"mm2.properties:1: `\ud83d` is half of a character"),
        ("k" * 5000, "mm2.properties:1: the key has 5000 characters"),
    ],
)
def test_what_no_property_can_be_is_refused_with_its_line(tmp_path, line, why):
    path = tmp_path / "mm2.properties"
    path.write_text(line)
    with pytest.raises(ConfigError) as caught:
        read_properties(path)
    assert why.replace("\\\\", "\\") in str(caught.value).replace("\\\\", "\\")


@pytest.mark.parametrize("text", ["${file:/etc/\0:key}", "${directory:/etc:a\0b}"])
def test_a_placeholder_with_a_null_character_is_refused(text):
    with pytest.raises(UnresolvedError):
        Resolver.declared_in({}, {}).resolve(text)
