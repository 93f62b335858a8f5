"""The clusters of the lab are real ones, and as many as asked for."""

from __future__ import annotations


def test_two_clusters_answer_with_their_own_cluster_ids(fleet):
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415 - only this test needs a client

    seen = []
    for cluster in fleet:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        seen.append(admin.list_topics(timeout=10).cluster_id)
    assert seen == [fleet["source"].cluster_id, fleet["target"].cluster_id]
