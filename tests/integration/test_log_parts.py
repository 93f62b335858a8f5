"""Parts of real logs: what a log has deleted is in none of them, and nobody stumbles over it."""

import asyncio

import pytest

from kit.lab_admin import delete_records
from kit.load import Load, produce
from kit.wire import Wire, on_loop, settings_of
from mmtool.kafka.admin.cluster_facts import KafkaCluster
from mmtool.kafka.ports import LogPart
from mmtool.lab.topics import create_topic
from mmtool.translation.types import TopicPartition

pytestmark = pytest.mark.kafka

SECONDS, WRITTEN, DELETED = 10.0, 10, 5


@on_loop
async def test_of_a_part_whose_beginning_was_deleted_there_is_what_is_left(fleet, tmp_path, topic_name):
    settings, bootstrap = settings_of(fleet, tmp_path).clusters["source"], fleet["source"].bootstrap
    topic = topic_name("parts")
    create_topic(bootstrap, topic)
    produce(bootstrap, Load(topic, WRITTEN, 1, 100))
    delete_records(bootstrap, topic, DELETED)
    topic_id = (await Wire(settings, bootstrap).log(topic)).topic_id
    ranges = (range(2, 3), range(3, 8), range(7, 9), range(DELETED))
    parts = [LogPart(TopicPartition(topic, 0), topic_id, offsets, WRITTEN) for offsets in ranges]
    found = await asyncio.to_thread(KafkaCluster(settings, SECONDS).records, parts, committed=True)
    assert [[seen.offset for seen in found[part]] for part in parts] == [[], [5, 6, 7], [7, 8], []]
