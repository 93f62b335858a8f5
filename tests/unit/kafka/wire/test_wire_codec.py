"""Primitive types, as Kafka's protocol guide writes them."""

import uuid
from base64 import urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.kafka.wire import codec
from mmtool.kafka.wire.codec import Cursor
from mmtool.kafka.wire.codes import DENIED, FENCED, RETRIABLE, Code, name_of
from mmtool.kafka.wire.fetch import FetchPartition, FetchRequest
from mmtool.kafka.wire.groups import Coordinated, FindCoordinatorRequest, OffsetDeleteRequest
from mmtool.kafka.wire.metadata import ListOffsetsRequest
from mmtool.kafka.wire.produce import ProducePartition, ProduceRequest
from mmtool.kafka.wire.request import NoCommonVersionError, WireRequest
from mmtool.kafka.wire.transactions import DescribeProducersRequest
from mmtool.translation.types import TopicPartition

_TEXT = st.text(max_size=300)


@pytest.mark.parametrize(
    ("value", "raw"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2_097_151, "ffff7f")],
)
def test_an_unsigned_varint_is_seven_bits_a_byte_lowest_first(value, raw):
    assert codec.uvarint(value) == bytes.fromhex(raw)


@given(st.integers(0, (1 << 32) - 1), st.binary(max_size=4))
def test_a_varint_is_read_back_and_what_follows_is_left(value, rest):
    cursor = Cursor(codec.uvarint(value) + rest)
    assert (cursor.uvarint(), bytes(cursor.take(len(rest)))) == (value, rest)


@given(st.none() | _TEXT)
def test_a_string_is_read_back_in_both_forms(text):
    read = Cursor(codec.string(text)).string(), Cursor(codec.compact_string(text), is_flexible=True).string()
    assert read == (text, text)


@pytest.mark.parametrize(
    ("text", "plain", "compact"),
    [(None, "ffff", "00"), ("", "0000", "01"), ("ab", "00026162", "036162"), ("é", "0002c3a9", "03c3a9")],
)
def test_strings_as_bytes(text, plain, compact):
    assert (codec.string(text).hex(), codec.compact_string(text).hex()) == (plain, compact)


@given(st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=200))
def test_an_array_is_read_back_in_both_forms(numbers):
    encoded = [codec.int32(number) for number in numbers]
    plain, compact = Cursor(codec.array(encoded)), Cursor(codec.compact_array(encoded), is_flexible=True)
    assert (plain.array(plain.int32), compact.array(compact.int32)) == (numbers, numbers)


@pytest.mark.parametrize("raw", ["ffffffff", "00000000"])
def test_a_null_array_reads_as_an_empty_one(raw):
    cursor = Cursor(bytes.fromhex(raw))
    assert cursor.array(cursor.int32) == []


@pytest.mark.parametrize(("raw", "found"), [("00", b""), ("01", b""), ("03abcd", b"\xab\xcd")])
def test_null_records_read_as_none_at_all(raw, found):
    assert bytes(Cursor(bytes.fromhex(raw), is_flexible=True).records()) == found


@given(st.integers(0, (1 << 128) - 1).map(lambda number: uuid.UUID(int=number)))
def test_a_topic_id_is_kafka_s_own_text_and_back(identifier):
    text = codec.topic_id_from_bytes(identifier.bytes)
    assert text == urlsafe_b64encode(identifier.bytes).decode().rstrip("=")
    assert codec.topic_id_to_bytes(text) == identifier.bytes


@pytest.mark.parametrize("text", ["", "orders", "A" * 21, "A" * 23])
def test_what_is_no_topic_id_is_refused(text):
    with pytest.raises(ValueError):  # noqa: PT011  the library's own words, which differ by what is wrong
        codec.topic_id_to_bytes(text)


@given(st.lists(st.tuples(st.integers(0, 300), st.binary(max_size=200)), max_size=4), st.integers(0, 255))
def test_tagged_fields_are_passed_over(fields, rest):
    tags = b"".join(codec.uvarint(tag) + codec.uvarint(len(raw)) + raw for tag, raw in fields)
    cursor = Cursor(codec.uvarint(len(fields)) + tags + bytes((rest,)), is_flexible=True)
    cursor.tags()
    assert bytes(cursor.take(1)) == bytes((rest,))


# --- versions ---------------------------------------------------------------------------------------------


def produce():
    return ProduceRequest([], 1000)


@pytest.mark.parametrize(
    ("broker", "version"),
    [((0, 7), 7), ((0, 8), 8), ((3, 12), 8), ((3, 13), 13), ((3, 99), 13), ((7, 7), 7)],
)
def test_the_newest_version_that_both_sides_know_is_spoken(broker, version):
    assert repr(produce().prepare({0: broker})) == f"ProduceRequest v{version}"


@pytest.mark.parametrize(
    ("request_", "versions", "message", "remedy"),
    [
        (produce(), {0: (0, 6)}, "too old: its Produce API goes up to version 6", "Kafka 2.1 or later"),
        (produce(), {0: (14, 20)}, "too new: its Produce API has versions 14 to 20", "upgrade mmtool"),
        (produce(), {0: (9, 12)}, "too new: its Produce API has versions 9 to 12, mmtool uses 7, 8, 13", ""),
        (produce(), {}, "too old: it does not have the Produce API", "Kafka 2.1 or later"),
        (OffsetDeleteRequest("app", ()), {0: (0, 6)}, "too old: it does not have the OffsetDelete", "2.4 or"),
    ],
)
def test_a_broker_without_a_common_version_is_refused_with_what_to_upgrade(
    request_, versions, message, remedy
):
    with pytest.raises(NoCommonVersionError) as raised:
        request_.prepare(versions)
    error = raised.value.of("east")
    assert error.exit_code == 3
    assert f"a broker of east is {message}" in error.message
    assert remedy in error.remedy


APIS = {
    0: "Produce", 1: "Fetch", 2: "ListOffsets", 3: "Metadata", 8: "OffsetCommit", 9: "OffsetFetch",
    10: "FindCoordinator", 12: "Heartbeat", 15: "DescribeGroups", 16: "ListGroups", 17: "SaslHandshake",
    21: "DeleteRecords", 22: "InitProducerId", 24: "AddPartitionsToTxn", 26: "EndTxn", 27: "WriteTxnMarkers",
    29: "DescribeAcls",
    30: "CreateAcls", 31: "DeleteAcls", 32: "DescribeConfigs", 35: "DescribeLogDirs", 36: "SaslAuthenticate",
    44: "IncrementalAlterConfigs",
    42: "DeleteGroups", 47: "OffsetDelete", 60: "DescribeCluster", 61: "DescribeProducers", 65: "DescribeTransactions",
    66: "ListTransactions", 69: "ConsumerGroupDescribe", 90: "DescribeShareGroupOffsets",
    91: "AlterShareGroupOffsets", 92: "DeleteShareGroupOffsets",
}  # fmt: skip


def test_every_api_that_is_used_has_a_name():
    def kinds(of):
        return {one for kind in of.__subclasses__() for one in (kind, *kinds(kind))}

    product = [kind for kind in kinds(WireRequest) if kind.__module__.startswith("mmtool.")]
    assert len(product) > 20
    for kind in product:
        assert f"the {APIS[kind.API_KEY]} API" in str(NoCommonVersionError(kind, kind.VERSIONS, None))


def test_a_header_names_api_version_correlation_and_client():
    request = FindCoordinatorRequest("t", Coordinated.GROUP).prepare({10: (0, 6)})
    assert request.pieces(7, "me")[0].hex() == "000a" + "0002" + "00000007" + "00026d65"


def test_a_header_of_a_flexible_version_ends_in_tags():
    request = DescribeProducersRequest([TopicPartition("t", 0)]).prepare({61: (0, 0)})
    assert request.pieces(7, "me")[0].hex() == "003d0000" + "00000007" + "00026d65" + "00"


@pytest.mark.parametrize(
    ("request_", "versions", "raw", "answer"),
    [
        (ListOffsetsRequest({}, read_committed=True), {2: (0, 5)}, "000000070000000000000000", {}),
        (DescribeProducersRequest([TopicPartition("t", 0)]), {61: (0, 0)}, "0000000700000000000100", {}),
    ],
    ids=["plain", "flexible"],
)
def test_an_answer_is_read_behind_a_header_as_long_as_its_version_has_it(request_, versions, raw, answer):
    assert request_.prepare(versions).read(memoryview(bytes.fromhex(raw))) == answer


# --- error codes ------------------------------------------------------------------------------------------


def test_an_error_code_has_kafka_s_name_or_its_number():
    assert (name_of(47), name_of(9999)) == ("INVALID_PRODUCER_EPOCH", "error 9999")


def test_no_error_code_is_retried_that_means_no():
    final = FENCED | DENIED | {Code.NONE, Code.MESSAGE_TOO_LARGE, Code.INVALID_RECORD, Code.INVALID_TIMESTAMP}
    assert RETRIABLE & final == frozenset()


# --- topics without ids -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("topic_id", "named"), [("t", True), ("AAECAwQFBgcICQoLDA0ODw", False)])
def test_a_topic_without_an_id_is_named_also_to_a_broker_that_knows_ids(topic_id, named):
    """As on brokers of 3.x whose ``inter.broker.protocol.version`` is still before 2.8."""
    fetch = FetchRequest([FetchPartition("t", topic_id, 0, 0, 1)], 1, 1, 1)
    produced = ProduceRequest([ProducePartition("t", topic_id, 0, b"")], 1000)
    spoken = [repr(request.prepare({0: (0, 99), 1: (0, 99)})) for request in (fetch, produced)]
    versions = ("v11", "v8") if named else ("v13", "v13")
    assert spoken == [f"FetchRequest {versions[0]}", f"ProduceRequest {versions[1]}"]


def test_the_zero_id_is_none_and_the_name_stands_for_it():
    zero = codec.topic_id_from_bytes(bytes(16))
    assert (codec.known_as("t", zero), codec.known_as("t", "id")) == ("t", "id")
