"""Blanks around strings and passwords do not count, as in Java's ``ConfigDef``; large numbers load."""

import pytest

from mmtool.config.properties import PropertyEntry
from mmtool.config.report import Report
from mmtool.config.security import _Reader
from mmtool.config.values import java_trim

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
    entries = {name: PropertyEntry(name, 1, value, value) for name, value in values.items()}
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
