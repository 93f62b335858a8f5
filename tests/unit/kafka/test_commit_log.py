"""In which partition of ``__consumer_offsets`` a group is: Kafka's ``Utils.abs(group.hashCode()) % count``."""

import pytest

from mmtool.kafka.groups.coordinators import partition_of


@pytest.mark.parametrize(
    ("group", "java_hash"),
    [
        ("a", 97),
        ("hello world", 1_794_106_052),
        ("The quick brown fox jumps over the lazy dog", -609_428_141),
        ("polygenelubricants", -(1 << 31)),  # whose absolute value is no int of Java's: 0 stands for it
        ("", 0),
    ],
)
def test_a_group_is_where_kafka_s_rule_has_it(group, java_hash):
    expected = 0 if java_hash == -(1 << 31) else abs(java_hash)
    assert partition_of(group, 50) == expected % 50
