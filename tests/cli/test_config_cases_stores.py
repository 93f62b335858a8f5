"""The files that people run MirrorMaker 2 with load once stores of the names in them are there."""

import json
from pathlib import Path

import pytest

from kit.keytool import STORE_PASSWORD, Keytool

pytestmark = pytest.mark.java

CASES = Path(__file__).parents[1] / "scenarios" / "config" / "cases"
SECRETS = "/tmp/secrets/"  # noqa: S108  as the files have it; nothing is written there
COMMENTED = f"{STORE_PASSWORD}  # put the right one here"


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A folder with a key store, trust stores in both formats, and the authority in PEM."""
    made = Keytool(tmp_path_factory.mktemp("stores"))
    certificate = made.certificate(made.key("key.jks"))
    made.trust("trust.jks", certificate)
    for name, store_type, password in (
        ("commented.jks", "JKS", COMMENTED),
        ("dollar.pfx", "PKCS12", "$principal-password"),
    ):
        store = made.key(name, store_type) if store_type == "PKCS12" else made.trust(name, certificate)
        made.run("-storepasswd", "-keystore", store, "-storepass", STORE_PASSWORD, "-new", password)
    return made.folder


@pytest.fixture
def check(mmtool, tmp_path, stores):
    """Check a case whose stores are those of the folder; ``changes`` are texts put right."""

    def run(number, *options, **changes):
        (given,) = CASES.glob(f"{number}-*/given.properties")
        text = given.read_text()
        for old, new in changes.get("changes", {}).items():
            assert old in text
            text = text.replace(old, new if "\n" in new or "=" in new else str(stores / new))
        path = tmp_path / "case.properties"
        path.write_text(text)
        ended = mmtool("config", "check", "-c", path, "-o", "json", *options)
        assert STORE_PASSWORD not in ended.stdout + ended.stderr
        rows = json.loads(ended.stdout)["data"]
        return ended.code, {row["key"] for row in rows if row["severity"] == "error"}

    return run


def test_02_loads_with_jks_stores_on_both_sides_once_the_servers_are_put_right(check):
    secrets = {
        f"{SECRETS}ca.truststore.jks": "trust.jks",
        f"{SECRETS}client.keystore.jks": "key.jks",
    }
    assert check("02", changes=secrets) == (2, {"B.bootstrap.servers"})
    assert check("02", changes={**secrets, "B.bootstrap.servers==": "B.bootstrap.servers="}) == (0, set())


def test_12_loads_with_a_jks_trust_store_on_the_target(check):
    assert check("12", changes={f"{SECRETS}ca.jks": "trust.jks"}) == (0, set())


def test_14_lacks_only_its_logins_where_its_stores_are_there(check):
    secrets = {f"/etc/kafka/secrets/{name}.truststore.jks": "trust.jks" for name in ("kafka", "kafka-1")}
    assert check("14", changes=secrets) == (2, {f"cluster-{n}.security.protocol" for n in (1, 2)})


def test_19_loads_with_a_jks_trust_store_on_the_source_alone(check):
    assert check("19", changes={"/mnt/sslcerts/source-tls/truststore.jks": "trust.jks"}) == (0, set())


def test_21_loads_with_stores_whose_password_holds_the_comment(check):
    secrets = {f"/opt/tls/{name}.truststore.jks": "commented.jks" for name in ("consumer", "producer")}
    assert check("21", "-s", "source", "-t", "target", changes=secrets) == (0, set())


def test_22_loads_with_a_pem_trust_store_beside_a_pfx_key_store_without_a_type(check):
    secrets = {"/kafka-secrets/ca.crt": "key.jks.pem", "/kafka-secrets/principal.pfx": "dollar.pfx"}
    assert check("22", changes=secrets) == (0, set())
