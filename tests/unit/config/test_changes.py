"""A changed file: what a running flow takes over, what waits, and what is never said."""

import os
import shutil
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.config import FlowSettings, NameFilter, load_settings
from mmtool.config.changes import compare
from mmtool.config.keys import FLOW_KEYS, Applies, Kind
from mmtool.config.live import FileWatch
from mmtool.config.read_files import ReadFiles
from mmtool.errors import ConfigError

BASE = """
clusters = a, b
a.bootstrap.servers = localhost:1
b.bootstrap.servers = localhost:2
a->b.enabled = true
"""
SASL = """
a.security.protocol = SASL_PLAINTEXT
a.sasl.mechanism = PLAIN
a.sasl.username = me
a.sasl.password = hush
"""


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    path = tmp_path_factory.mktemp("changes") / "mm2.properties"

    def of(more=""):
        path.write_text(BASE + more)
        return load_settings(path, {}).flows[0]

    return of


OUTSIDE_THE_TABLE = {"topic_aliases", "isolation", "spark_conf"}
"""Settings that `replicate` reads and that have no row in the table of keys: they apply at the next start."""
NOT_READ_BY_REPLICATE = {"enabled", "alias_keys", "way_back", "mirrors_canary", "hooks", "units"} | {
    "mm2_exactly_once",
    "mm2_group",
    "mm2_offsets_topic",
    "accepts_unverified",
}


def test_every_setting_of_a_flow_has_its_place():
    of_keys = {key.field for key in FLOW_KEYS.values()}
    places = [*of_keys, *OUTSIDE_THE_TABLE, *NOT_READ_BY_REPLICATE, "source", "target"]
    assert set(FlowSettings.model_fields) - set(places) == set(), (
        "add a row with this field to config/keys.toml"
    )
    assert set(places) - set(FlowSettings.model_fields) == set()
    assert len(places) == len(set(places))


def test_every_row_has_a_kind_and_a_place_that_the_code_knows():
    assert {key.kind for key in FLOW_KEYS.values()} <= set(get_args(Kind))
    assert {key.applies for key in FLOW_KEYS.values()} <= set(get_args(Applies))


def test_a_field_that_several_keys_make_has_one_place():
    by_field = {key.field: set() for key in FLOW_KEYS.values()}
    for key in FLOW_KEYS.values():
        by_field[key.field].add(key.applies)
    assert {field: places for field, places in by_field.items() if len(places) > 1} == {}


def fields_that(*places):
    return {key.field for key in FLOW_KEYS.values() if key.applies in places}


LIVE = fields_that("background", "workers", "driver")
AT_NEXT_START = fields_that("next start") | OUTSIDE_THE_TABLE


@given(
    st.sets(st.sampled_from(sorted({*LIVE, *AT_NEXT_START, *fields_that("first start")} - {"spark_conf"})))
)
def test_live_settings_are_the_new_ones_afterwards_and_all_others_the_old_ones(settings, changed):
    before = settings()
    after = before.model_copy(update={name: _another(getattr(before, name)) for name in changed})
    found = compare(before, after)
    assert found.concerned == {key.applies for key in FLOW_KEYS.values() if key.field in changed & LIVE}
    for name in FlowSettings.model_fields:
        decides = after if name in LIVE else before
        assert getattr(found.settings, name) == getattr(decides, name)
    assert len(found.waiting) == len(changed & AT_NEXT_START)
    assert compare(found.settings, after).applied == ()


def _another(value):
    return NameFilter(("other",), ("another",)) if isinstance(value, NameFilter) else f"not {value}"


@pytest.mark.parametrize(
    ("more", "applied", "waiting", "fixed"),
    [
        ("topics = orders", ("topics",), (), ()),
        ("a->b.topics.exclude = x", ("topics.exclude",), (), ()),
        ("config.properties.exclude = x", ("config.properties.exclude",), (), ()),
        ("a.mmtool.throttle.bytes.per.second = 5000", ("mmtool.throttle.bytes.per.second",), (), ()),
        ("mmtool.shards = 5", (), (), ("mmtool.shards",)),
        ("mmtool.hook.fence = /bin/true", (), (), ()),
        ("mmtool.spark.conf.spark.executor.memory = 1g", (), ("mmtool.spark.conf.*",), ()),
        ("replication.policy.separator = _", (), ("replication.policy.* or mmtool.topic.rename.format",), ()),
        ("b.producer.linger.ms = 5", (), ("b.producer.*",), ()),
        (SASL, (), ("a.security.protocol",), ()),  # another protocol: another listener
        ("clusters = a, b, c\nc.bootstrap.servers = localhost:3", (), (), ()),
        ("a.alias = plant", (), ("source.cluster.alias, target.cluster.alias",), ()),
    ],
)
def test_keys_are_named_as_the_file_has_them_and_values_never(settings, more, applied, waiting, fixed):
    found = compare(settings(), settings(more))
    assert (found.applied, found.waiting, found.fixed) == (applied, waiting, fixed)


TLS = """
a.security.protocol = SASL_SSL
a.sasl.mechanism = PLAIN
a.sasl.username = me
a.sasl.password = hush
a.ssl.truststore.certificates = -----BEGIN CERTIFICATE----- MIIB -----END CERTIFICATE-----
"""


@pytest.mark.parametrize(
    ("more", "applied"),
    [
        ("a.sasl.password = hush2", ("a.sasl.*",)),
        ("a.admin.sasl.password = hush2", ("a.sasl.*",)),
        ("a.sasl.mechanism = SCRAM-SHA-512", ("a.sasl.*",)),
        (
            "a.ssl.truststore.certificates = -----BEGIN CERTIFICATE----- MIIC -----END CERTIFICATE-----",
            ("a.ssl.*",),
        ),
        ("a.sasl.password = hush2\na.ssl.endpoint.identification.algorithm =", ("a.sasl.*", "a.ssl.*")),
        ("# nothing", ()),
    ],
)
def test_changed_credentials_are_taken_over_and_the_rest_of_a_cluster_is_not(settings, more, applied):
    before, after = settings(TLS), settings(f"{TLS}{more}\na.producer.linger.ms = 5")
    found = compare(before, after)
    assert (found.applied, found.waiting) == (applied, ("a.producer.*",))
    assert found.concerned == ({"background", "workers"} if applied else set())
    assert found.settings.source.security_for("admin") == after.source.security_for("admin")
    assert found.settings.source.producer == before.source.producer


# --- the file itself --------------------------------------------------------------------------------------


@pytest.fixture
def watched(tmp_path):
    path = tmp_path / "mm2.properties"
    path.write_text("one")
    watch = FileWatch(path)
    assert [watch.is_due() for _ in range(4)] == [False, True, False, False]
    return path, watch


def in_place(path):
    path.write_text("two, longer")


def by_rename(path):
    new = path.with_suffix(".new")
    new.write_text("two")
    new.replace(path)


def of_the_same_size_and_time(path):
    found = path.stat()
    by_rename(path)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize("change", [in_place, by_rename, of_the_same_size_and_time, os.unlink])
def test_a_change_is_seen_once_and_when_it_rests(watched, change):
    path, watch = watched
    change(path)
    assert [watch.is_due() for _ in range(4)] == [False, True, False, False]


def test_a_link_that_leads_elsewhere_is_a_change(tmp_path):
    """Kubernetes swaps a folder's link when a ConfigMap changes."""
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mm2.properties").write_text("same")
    data = tmp_path / "..data"
    data.symlink_to("first")
    watch = FileWatch(tmp_path / "..data" / "mm2.properties")
    assert [watch.is_due() for _ in range(3)] == [False, True, False]
    (tmp_path / "new").symlink_to("second")
    (tmp_path / "new").replace(data)
    assert [watch.is_due() for _ in range(3)] == [False, True, False]


def test_a_change_of_any_file_that_was_read_is_seen_also_one_from_the_time_of_reading(tmp_path):
    path, other, late = (tmp_path / name for name in ("mm2.properties", "password", "key.pem"))
    path.write_text("one")
    other.write_text("one")
    watch, files = FileWatch(path), ReadFiles()
    assert [watch.is_due() for _ in range(3)] == [False, True, False]
    for file in (path, other, late):
        files.note(file)
    other.write_text("while it was read")
    watch.follow(files, also_earlier=False)
    assert [watch.is_due() for _ in range(3)] == [False, True, False]
    late.write_text("there now")
    assert [watch.is_due() for _ in range(3)] == [False, True, False]


def test_files_that_are_written_one_after_the_other_are_read_when_all_rest(tmp_path):
    """As a certificate and its key: no half of a pair is read while the other one is on its way."""
    files = ReadFiles()
    certificate, key = (tmp_path / name for name in ("client.pem", "client.key"))
    for file in (certificate, key):
        files.note(file)
    watch = FileWatch(tmp_path / "mm2.properties")
    watch.follow(files, also_earlier=False)
    certificate.write_text("new")
    due = [watch.is_due()]
    key.write_text("new")
    assert [*due, *(watch.is_due() for _ in range(3))] == [False, False, True, False]


def test_files_of_a_reading_that_failed_are_watched_beside_those_of_the_last_good_one(tmp_path):
    names = ("mm2.properties", "old", "new", "unread")
    path, old, new, unread = (tmp_path / name for name in names)
    watch, files = FileWatch(path), ReadFiles()
    for file in (path, old):
        files.note(file)
    watch.follow(files, also_earlier=False)
    files.forget()
    for file in (path, new):
        files.note(file)
    watch.follow(files, also_earlier=True)
    for file, is_seen in ((old, True), (new, True), (unread, False)):
        file.write_text("something")
        assert any(watch.is_due() for _ in range(3)) is is_seen
    files.forget()
    files.note(new)
    watch.follow(files, also_earlier=False)
    old.write_text("of no interest any more")
    assert not any(watch.is_due() for _ in range(3))


def test_every_file_that_a_configuration_is_read_from_is_noted_also_one_that_is_missing(tmp_path):
    secrets, folder = tmp_path / "secrets.properties", tmp_path / "mounted"
    folder.mkdir()
    secrets.write_text("user = me")
    (folder / "password").write_text("hush")
    path = tmp_path / "mm2.properties"
    pem = {kind: tmp_path / f"{kind}.pem" for kind in ("trust", "own")}
    path.write_text(
        f"{BASE}a.security.protocol = SASL_SSL\na.sasl.mechanism = PLAIN\n"
        f"a.sasl.username = ${{file:{secrets}:user}}\na.sasl.password = ${{directory:{folder}:password}}\n"
        f"a.ssl.truststore.location = {pem['trust']}\na.ssl.certificate.location = {pem['own']}\n"
    )
    files = ReadFiles()
    with pytest.raises(ConfigError):
        load_settings(path, {}, files)
    assert set(files.stamps) == {path, secrets, folder / "password", *pem.values()}
    assert [file for file, stamp in files.stamps.items() if stamp is None] == [*pem.values()]


def test_a_file_that_is_written_all_the_time_is_read_all_the_same(watched):
    path, watch = watched
    due = []
    for at in range(12):
        path.write_text("x" * (at + 10))
        due.append(watch.is_due())
    assert (due[:5], sum(due)) == ([False] * 4 + [True], 2)


def test_a_pipe_is_not_read_a_second_time(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    watch, files, secret = FileWatch(tmp_path / "pipe"), ReadFiles(), tmp_path / "secret"
    assert [watch.is_due() for _ in range(6)] == [False] * 6
    files.note(secret)
    watch.follow(files, also_earlier=False)
    secret.write_text("for its sake neither")
    assert [watch.is_due() for _ in range(6)] == [False] * 6


def test_a_file_that_comes_back_is_seen(watched):
    path, watch = watched
    shutil.copy2(path, path.with_suffix(".kept"))
    path.unlink()
    assert [watch.is_due() for _ in range(3)] == [False, True, False]
    path.with_suffix(".kept").rename(path)
    assert [watch.is_due() for _ in range(3)] == [False, True, False]
