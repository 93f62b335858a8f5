"""Rules about topics are carried over between two clusters that have an authorizer."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from mmtool.kafka.acls import AclAdmin
from mmtool.lab.cluster import Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.topics import create_topic
from mmtool.lab.waiting import wait_until
from mmtool.testing.replicating import Bench

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PATIENCE_SECONDS = 60
GUARDED = Shape(
    properties={
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    clusters = Fleet.of(tmp_path_factory.mktemp("guarded"), "source", "target", shape=GUARDED)
    with clusters:
        yield clusters
    clusters.remove_data()


def allow(cluster, topic, principal, operation, pattern=ResourcePatternType.LITERAL):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    rule = AclBinding(ResourceType.TOPIC, topic, pattern, principal, "*", operation, AclPermissionType.ALLOW)
    admin.create_acls([rule])[rule].result(20)


def rules(settings):
    return {(a.topic, a.principal, a.operation) for a in AclAdmin(settings).topic_acls()}


def test_readers_may_read_the_mirror_and_nobody_gets_the_right_to_write(guarded, tmp_path, topic_name):
    topic, bench = topic_name("acls"), Bench(guarded, tmp_path)
    create_topic(guarded["source"].bootstrap, topic)
    allow(guarded["source"], topic, "User:reader", AclOperation.READ)
    allow(guarded["source"], topic, "User:writer", AclOperation.WRITE)
    allow(guarded["source"], topic, "User:prefix", AclOperation.READ, ResourcePatternType.PREFIXED)
    properties = bench.properties(topic, **{"source->target.sync.topic.acls.interval.seconds": "1"})
    flow = bench.flow(properties)
    remote = flow.remote_topic(topic)

    def comes(expected):
        wait_until(lambda: rules(flow.target) == expected, str(expected), PATIENCE_SECONDS)

    with bench.start(properties):
        comes({(remote, "User:reader", "READ")})
        allow(guarded["source"], topic, "User:owner", AclOperation.ALL)
        comes({(remote, "User:reader", "READ"), (remote, "User:owner", "READ")})
