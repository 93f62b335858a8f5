"""Blanks around strings and passwords do not count, as in Java's ``ConfigDef``; large numbers load."""

import pytest

from mmtool.config.keys import LARGEST_INT
from mmtool.config.properties import Entry
from mmtool.config.report import Report
from mmtool.config.security import _Reader
from mmtool.config.values import java_trim
from mmtool.errors import ConfigError

SASL = "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"


def test_trimming_takes_off_what_java_takes_off():
    assert java_trim("\x00\t a b\u00a0 \x1f\r\n") == "a b\u00a0"


def test_blanks_around_a_login_do_not_count(load):
    sasl = load(f"{SASL}A.sasl.username = u \nA.sasl.password = p w\\t \n").clusters["A"].security.sasl
    assert (sasl.username, sasl.password.get_secret_value()) == ("u", "p w")


def test_blanks_around_passwords_of_stores_and_keys_do_not_count(tmp_path):
    values = {
        "ssl.truststore.password": "changeit ",
        "ssl.key.password": "\u00a0secret\t",
        "ssl.truststore.type": "JKS ",
        "ssl.truststore.location": "/a.jks ",
    }
    entries = {name: Entry(name, 1, value, value) for name, value in values.items()}
    reader = _Reader(entries, Report(tmp_path))
    store = reader._store("truststore", entries["ssl.truststore.location"])
    assert (store.password, store.key_password, store.store_type) == ("changeit", "\u00a0secret", "JKS")
    assert reader._secret("ssl.key.password").get_secret_value() == "\u00a0secret"


@pytest.mark.parametrize("line", ["A.alias = plant \n", "A->B.source.cluster.alias = plant\\t\n"])
def test_blanks_around_an_alias_do_not_count(load, line):
    settings = load(line)
    assert settings.flows[0].remote_topic("orders") == "plant.orders"
    assert settings.flows[0].topic_aliases.source == "plant"
    assert settings.warnings == ()


@pytest.mark.parametrize(
    ("key", "value", "field", "used", "said"),
    [
        ("admin.timeout.ms", "9223372036854775807", "admin_timeout_ms", LARGEST_INT, "too large"),
        ("admin.timeout.ms", "2147483648", "admin_timeout_ms", LARGEST_INT, "too large"),
        (
            "sync.topic.acls.interval.seconds",
            "3000000000",
            "sync_topic_acls_interval_seconds",
            LARGEST_INT,
            "too large",
        ),
        (
            "refresh.topics.interval.seconds",
            "9223372036854775",
            "refresh_topics_interval_seconds",
            LARGEST_INT,
            "too large",
        ),
        ("offset.lag.max", "-1", "offset_lag_max", 0, "too small"),
        ("offset.lag.max", "-9223372036854775808", "offset_lag_max", 0, "too small"),
    ],
)
def test_a_number_that_mirror_maker_takes_loads_with_a_warning(load, key, value, field, used, said):
    settings = load(f"A->B.{key} = {value}\n")
    assert getattr(settings.flows[0], field) == used
    (warning,) = settings.warnings
    assert warning.endswith(f"A->B.{key}: is {said}; mmtool uses {used}")


@pytest.mark.parametrize(
    "line",
    [
        "admin.timeout.ms = 9223372036854775808",
        "sync.topic.acls.interval.seconds = 9223372036854775808",
        "offset.lag.max = -9223372036854775809",
        "mmtool.shards = 1025",
    ],
)
def test_a_number_that_mirror_maker_refuses_as_well_stays_refused(load, line):
    with pytest.raises(ConfigError, match="a whole number from"):
        load(f"{line}\n")
