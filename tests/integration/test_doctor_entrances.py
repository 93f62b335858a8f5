"""``mmtool doctor`` at listeners that are unreachable, refuse the login, or show the wrong certificate."""

from contextlib import ExitStack

import pytest

from kit.keytool import STORE_PASSWORD, Keytool
from mmtool.lab.cluster import Cluster, Shape
from mmtool.lab.fleet import Fleet
from mmtool.lab.ports import PortReservation

pytestmark = pytest.mark.kafka

HERE = "127.0.0.1"
NOWHERE = "broker-7.nowhere.invalid:9092"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
CANARY = "canary-5eCr3t"
LISTENERS = ("OUT", "LOGIN", "TLS", "OLD")


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """An authority, a broker certificate of today, one of last year, and a client certificate of last year."""
    keytool = Keytool(tmp_path_factory.mktemp("stores"))
    root = keytool.key("root", "PKCS12", "-ext", "bc:c", "-startdate", "-400d", "-validity", "4000")
    keytool.trust("trust.pfx", keytool.certificate(root), "PKCS12")
    keytool.trust("trust-of-nobody.pfx", keytool.certificate(keytool.key("other", "PKCS12")), "PKCS12")
    own = ("-ext", f"san=ip:{HERE}")
    past = ("-startdate", "-300d", "-validity", "60")
    keytool.issue(keytool.key("broker.pfx", "PKCS12"), root, *own, "-validity", "300")
    keytool.issue(keytool.key("broker-old.pfx", "PKCS12"), root, *own, *past)
    keytool.issue(keytool.key("client-old.pfx", "PKCS12"), root, *past)
    return keytool.folder


def shape(stores, ports):
    """One broker with a listener for each way to fail."""
    own = f"PLAINTEXT://{HERE}:{{port}}"
    at = {name: f"{name}://{HERE}:{ports[name]}" for name in LISTENERS}
    advertised = {**at, "OUT": f"OUT://{NOWHERE}"}
    kinds = {"OUT": "PLAINTEXT", "LOGIN": "SASL_PLAINTEXT", "TLS": "SSL", "OLD": "SSL"}
    return Shape(
        properties={
            "listeners": ",".join([own, f"CONTROLLER://{HERE}:{{controller_port}}", *at.values()]),
            "advertised.listeners": ",".join([own, *advertised.values()]),
            "listener.security.protocol.map": ",".join(
                f"{name}:{kind}"
                for name, kind in {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **kinds}.items()
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "listener.name.login.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.login.plain.sasl.jaas.config": f'{PLAIN} required user_mm="{CANARY}-right";',
            **store("listener.name.tls.ssl.keystore", f"{stores}/broker.pfx"),
            **store("listener.name.old.ssl.keystore", f"{stores}/broker-old.pfx"),
        }
    )


def store(prefix, path):
    return {f"{prefix}.{name}": value for name, value in {
        "location": str(path), "password": STORE_PASSWORD, "type": "PKCS12"}.items()}  # fmt: skip


@pytest.fixture(scope="module")
def ports():
    reserved = PortReservation()
    yield {name: reserved.take() for name in LISTENERS}
    reserved.release()


@pytest.fixture(scope="module")
def doctor(stores, ports, tmp_path_factory):
    """``doctor(run, "TLS", ...)``: with the source behind that listener."""
    directory = tmp_path_factory.mktemp("entrances")
    with ExitStack() as ends:
        source = ends.enter_context(Cluster("source", directory / "source", shape(stores, ports)))
        target = ends.enter_context(Cluster("target", directory / "target"))
        both = Fleet([source, target])

        def run(mmtool, listener, **lines):
            path = directory / f"{listener}-{len(list(directory.glob('*.properties')))}.properties"
            servers = {"source.bootstrap.servers": f"{HERE}:{ports[listener]}"}
            path.write_text(both.properties(**{**servers, **lines}))
            return mmtool("doctor", "-c", path, "-o", "json", "--timeout", "4s")

        yield run


def rows(answer, check):
    """What the check says of the source: severity, subject, message and remedy."""
    return [
        (row["severity"], row["subject"], row["message"], row["remedy"])
        for row in answer.rows
        if row["check"] == check and row["cluster"] == "source"
    ]


def target_is_fine(answer):
    said = {row["severity"] for row in answer.rows if row["cluster"] == "target"}
    return said == {"ok"}


def login(mechanism, module, password):
    return {
        "source.security.protocol": "SASL_PLAINTEXT",
        "source.sasl.mechanism": mechanism,
        "source.sasl.jaas.config": f'{module} required username="mm" password="{password}";',
    }


def tls(stores, trust="trust.pfx"):
    return {
        "source.security.protocol": "SSL",
        **store("source.ssl.truststore", f"{stores}/{trust}"),
    }


def test_a_broker_that_advertises_an_address_that_is_unreachable_from_here_is_named(doctor, mmtool):
    answer = doctor(mmtool, "OUT")
    ((severity, subject, message, remedy),) = rows(answer, "listeners")
    assert (answer.code, severity, subject) == (4, "problem", NOWHERE)
    assert f"broker 0 of source advertises {NOWHERE}, which cannot be resolved" in message
    assert "advertised.listeners" in remedy
    assert answer.seconds < 30


def test_a_wrong_password_is_a_problem_without_the_password(doctor, mmtool):
    answer = doctor(mmtool, "LOGIN", **login("PLAIN", PLAIN, f"{CANARY}-wrong"))
    ((severity, _, message, _),) = rows(answer, "authentication")
    assert (answer.code, severity) == (4, "problem")
    assert "PLAIN as user mm" in message
    assert CANARY not in answer.stdout + answer.stderr
    assert target_is_fine(answer)


def test_a_mechanism_that_the_listener_does_not_enable_is_told_with_those_that_it_has(doctor, mmtool):
    answer = doctor(mmtool, "LOGIN", **login("SCRAM-SHA-512", SCRAM, f"{CANARY}-right"))
    ((severity, _, message, _),) = rows(answer, "authentication")
    assert (answer.code, severity) == (4, "problem")
    assert "SCRAM-SHA-512 as user mm" in message
    assert "the listener enables only PLAIN" in message


def test_a_client_without_a_login_at_a_listener_that_asks_for_one_is_told_so(doctor, mmtool):
    answer = doctor(mmtool, "LOGIN")
    ((severity, _, message, _),) = rows(answer, "authentication")
    assert (answer.code, severity) == (4, "problem")
    assert "the listener may require a SASL login" in message


def test_the_right_login_is_taken(doctor, mmtool):
    answer = doctor(mmtool, "LOGIN", **login("PLAIN", PLAIN, f"{CANARY}-right"))
    ((severity, _, message, _),) = rows(answer, "authentication")
    assert (answer.code, severity) == (0, "ok"), answer.stdout
    assert "User:mm" in message


def test_a_certificate_in_its_time_is_ok_with_its_date(doctor, mmtool, stores):
    answer = doctor(mmtool, "TLS", **tls(stores))
    ((severity, _, message, _),) = rows(answer, "certificate")
    assert (answer.code, severity) == (0, "ok"), answer.stdout
    assert "the first expires on" in message


def test_an_expired_broker_certificate_is_a_problem_with_its_date(doctor, mmtool, stores):
    answer = doctor(mmtool, "OLD", **tls(stores))
    ((severity, subject, message, remedy),) = rows(answer, "certificate")
    assert (answer.code, severity) == (4, "problem")
    assert "CN=broker-old.pfx" in message
    assert "expired on" in message
    assert "ssl.keystore.location" in remedy
    assert subject.startswith(HERE)


def test_a_certificate_for_another_host_name_is_a_problem(doctor, mmtool, stores, ports):
    servers = {"source.bootstrap.servers": f"localhost:{ports['TLS']}"}
    answer = doctor(mmtool, "TLS", **tls(stores), **servers)
    ((severity, subject, message, remedy),) = rows(answer, "certificate")
    assert (answer.code, severity, subject) == (4, "problem", f"localhost:{ports['TLS']}")
    assert "localhost" in message
    assert "subject alternative name" in remedy


def test_an_authority_that_is_not_trusted_is_a_problem(doctor, mmtool, stores):
    answer = doctor(mmtool, "TLS", **tls(stores, "trust-of-nobody.pfx"))
    problems = [row for row in rows(answer, "certificate") if row[0] == "problem"]
    assert answer.code == 4
    assert "source.ssl.truststore.location" in problems[0][3]


def test_an_expired_client_certificate_is_a_problem(doctor, mmtool, stores):
    own = store("source.ssl.keystore", f"{stores}/client-old.pfx")
    answer = doctor(mmtool, "TLS", **tls(stores), **own)
    problems = [row for row in rows(answer, "certificate") if row[0] == "problem"]
    assert answer.code == 4
    assert "client certificate CN=client-old.pfx" in problems[0][2]
