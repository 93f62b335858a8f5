"""The clusters of the lab are real ones, and as many as asked for."""

from __future__ import annotations

from confluent_kafka.admin import AdminClient


def test_two_clusters_answer_with_their_own_cluster_ids(fleet):
    seen = []
    for cluster in fleet:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        seen.append(admin.list_topics(timeout=10).cluster_id)
    assert seen == [fleet["source"].cluster_id, fleet["target"].cluster_id]
