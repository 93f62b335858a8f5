"""Clusters with certificates, users and the authorizer: who gets in, and who may do what."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from kit.lookups import commit
from kit.processes import run_mmtool
from kit.secure_pairs import logins
from mmtool.lab.load import Load, produce
from mmtool.lab.security.certificates import StoreFormat
from mmtool.lab.security.kinds import ADMIN, SecurityKind
from mmtool.lab.topics import create_topic

pytestmark = pytest.mark.kafka

TOPIC = "parcels"


@pytest.fixture(scope="module", params=logins(SecurityKind.SCRAM))
def pair(request, secured):
    """Two clusters; a topic with records and a group that has read a part of it."""
    started = secured(request.param)
    bootstrap = started.bench.fleet["source"].bootstrap
    create_topic(bootstrap, TOPIC, 2)
    produce(bootstrap, Load(TOPIC, 1_000, 2, 100))
    commit(bootstrap, "app", TOPIC, 20, 20)
    return started


@pytest.fixture(scope="module")
def mirrored(pair):
    """The flow's properties file, once ``replicate`` has caught up as the user mmtool."""
    path = pair.properties(TOPIC)
    answer = pair.bench.catch_up(path, "-o", "json")
    assert answer.code == 0, answer.stderr
    return path


@pytest.mark.parametrize("store_format", StoreFormat, ids=str)
def test_mmtool_connects_with_each_format_of_stores(pair, store_format):
    topics = AdminClient(pair.client(ADMIN, store_format)).list_topics(timeout=20).topics
    assert TOPIC in topics


def test_records_are_mirrored_as_the_user_mmtool(pair, mirrored, tmp_path):
    answer = run_mmtool(tmp_path / "run", "status", "-c", str(mirrored), "-o", "json")
    found = {row["partition"]: row["lag_records"] for row in answer.rows if row["topic"] == TOPIC}
    assert (answer.code, found) == (0, {0: 0, 1: 0}), answer.stderr


def test_offsets_are_translated_as_the_user_mmtool(mirrored, tmp_path):
    answer = run_mmtool(tmp_path / "run", "translate-offsets", "-g", "app", "-c", str(mirrored), "-o", "json")
    found = [(row["partition"], row["downstream_offset"], row["exactness"]) for row in answer.rows]
    assert (answer.code, found) == (0, [(0, 20, "exact"), (1, 20, "exact")]), answer.stderr
