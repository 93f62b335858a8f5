"""What is made of what listeners tell: reachability, logins, certificates, releases."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from mmtool.config.credentials import PasswordLogin, Security
from mmtool.doctor.brokers import SOURCE_FLOOR, TARGET_FLOOR, judge_versions, release_of
from mmtool.doctor.entrances import (
    ShownCertificate,
    away_error,
    judge_authentication,
    judge_certificates,
    judge_listeners,
)
from mmtool.kafka.admin.listeners import CertificateFault, Entrance, ListenerAnswer, Stage, entrances
from mmtool.kafka.wire.request import SpokenApis

NOW = datetime(2026, 6, 1, tzinfo=UTC)
LOGIN = Security(
    protocol="SASL_PLAINTEXT",
    sasl=PasswordLogin(mechanism="SCRAM-SHA-512", username="mm", password=SecretStr("canary")),
)
OPEN = Entrance("A", ("one:9092", "two:9092"), Security())
WITH_LOGIN = Entrance("A", ("one:9092",), LOGIN)


def answer(
    address="one:9092",
    broker=None,
    failed=None,
    reason="why",
    entrance=OPEN,
    apis=None,
    shown=None,
    *,
    fault=None,
):
    said = reason if failed else ""
    return ListenerAnswer(entrance, address, broker, failed, said, shown, apis, fault)


def spoken(level=0, **versions):
    return SpokenApis(
        {int(api[1:]): (0, highest) for api, highest in versions.items()},
        {"metadata.version": level} if level else {},
    )


def rows(findings):
    return [(finding.severity, finding.subject) for finding in findings]


# --- listeners --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "names"),
    [
        ([], ["A"]),
        (["A.admin.bootstrap.servers = localhost:9"], ["A.admin", "A"]),
        (["A.producer.bootstrap.servers = localhost:9"], ["A", "A.producer"]),
    ],
)
def test_an_entrance_has_the_prefix_of_the_keys_that_decide_it(file, lines, names):
    assert [one.name for one in entrances(file(*lines).one("A", "B").source)] == names


def test_one_dead_bootstrap_server_of_two_is_a_warning_and_the_last_one_a_problem():
    dead, alive = answer("two:9092", failed=Stage.CONNECT), answer("one:9092", 1)
    assert rows(judge_listeners("A", [alive, dead])) == [("warning", "two:9092")]
    assert rows(judge_listeners("A", [dead])) == [("problem", "two:9092")]


@pytest.mark.parametrize("stage", [Stage.RESOLVE, Stage.CONNECT, Stage.TLS, Stage.ANSWER])
def test_an_advertised_listener_that_fails_is_a_problem_that_names_broker_address_and_setting(stage):
    (finding,) = judge_listeners("A", [answer("one:9092"), answer("inner:9092", 7, stage)])
    assert (finding.severity, finding.subject) == ("problem", "inner:9092")
    assert "broker 7 of A advertises inner:9092" in finding.message
    assert ("advertised.listeners" in finding.remedy) == (stage in {Stage.RESOLVE, Stage.CONNECT})


@pytest.mark.parametrize(
    ("failed", "fault", "said", "remedy"),
    [
        (Stage.CONNECT, None, "does not answer at one:9092", "start the broker"),
        (Stage.LOGIN, None, "refuses the login at one:9092", "correct the user name and the"),
        (
            Stage.NO_LOGIN,
            None,
            "refuses the login at one:9092: why",
            "set A.security.protocol to the protocol",
        ),
        (
            Stage.PROOF,
            None,
            "does not complete the login at one:9092: why",
            "check which brokers A.bootstrap",
        ),
        (Stage.TLS, None, "does not accept the certificate of cluster A", "import the certif"),
        (Stage.TLS, CertificateFault.EXPIRED, "of cluster A at one:9092", "renew the certificate"),
    ],
)
def test_a_cluster_that_lets_nobody_in_is_away_and_says_how_and_what_to_do(failed, fault, said, remedy):
    entrance = OPEN if failed in {Stage.CONNECT, Stage.TLS} else WITH_LOGIN
    shown = b"der" if failed is Stage.TLS else None
    error = away_error("A", [answer(failed=failed, entrance=entrance, shown=shown, fault=fault)])
    assert said in error.message
    assert error.remedy.startswith(remedy)


def test_a_cluster_with_one_listener_that_lets_us_in_is_not_away():
    assert away_error("A", [answer(), answer("two:9092", failed=Stage.CONNECT)]) is None


# --- authentication ---------------------------------------------------------------------------------------


def test_listeners_that_refuse_for_one_reason_have_one_row():
    refused = [answer(f"b{n}:9092", n, Stage.LOGIN, entrance=WITH_LOGIN) for n in range(5)]
    (finding,) = judge_authentication("A", LOGIN, "User:mm", refused)
    assert "b0:9092, b1:9092, b2:9092 and 2 more" in finding.message


# --- certificates -----------------------------------------------------------------------------------------


def certificate(days, **of):
    return ShownCertificate(
        "certificate CN=x", "x.jks", NOW - timedelta(days=99), NOW + timedelta(days=days), **of
    )


@pytest.mark.parametrize(
    ("days", "severity"), [(-1, "problem"), (0, "warning"), (29, "warning"), (30, "ok"), (400, "ok")]
)
def test_a_certificate_is_a_problem_when_it_has_expired_and_a_warning_for_thirty_days_before(days, severity):
    (finding,) = judge_certificates("A", [certificate(days)], [], NOW)
    assert finding.severity == severity
    assert f"{NOW + timedelta(days=days):%Y-%m-%d}" in finding.message


ANONYMOUS = Security(), "User:ANONYMOUS"
YOUNG = ShownCertificate("c", "x.jks", NOW + timedelta(days=1), NOW + timedelta(days=90))
JUDGED = {
    "a refused login is no dead listener": (
        judge_listeners("A", [answer(failed=Stage.LOGIN, entrance=WITH_LOGIN)]), ("ok", ""),
    ),
    "a login that nobody could be asked for": (
        judge_authentication("A", *ANONYMOUS, [answer(failed=Stage.CONNECT)]), ("warning", ""),
    ),
    "no login over a plain connection": (judge_authentication("A", *ANONYMOUS, [answer()]), ("ok", "")),
    "an expired authority beside others": (
        judge_certificates("A", [certificate(-1, is_alone=False)], [], NOW), ("warning", "x.jks"),
    ),
    "a certificate of tomorrow": (judge_certificates("A", [YOUNG], [], NOW), ("problem", "x.jks")),
    "no certificate that could end": (judge_certificates("A", [], [answer()], NOW), ("ok", "")),
}  # fmt: skip


@pytest.mark.parametrize(("findings", "expected"), JUDGED.values(), ids=JUDGED)
def test_what_is_found_has_one_row(findings, expected):
    assert rows(findings) == [expected]


# --- versions ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "release"),
    [
        (spoken(33), "4.4"),
        (spoken(30), "4.3"),
        (spoken(21, a1=17), "3.9"),
        (spoken(0, a1=17), "3.9"),
        (spoken(0, a1=11, a47=0), "2.4"),
        (spoken(0, a1=10, a3=7), "2.1"),
        (spoken(0, a1=7), "2.0"),
        (spoken(99), "4.4 or later"),
    ],
)
def test_a_release_is_told_by_its_features_or_by_what_it_speaks(told, release):
    assert str(release_of(told)) == release


@pytest.mark.parametrize(
    ("floor", "level_free", "severity"),
    [
        (SOURCE_FLOOR, spoken(a1=10), "warning"),
        (TARGET_FLOOR, spoken(a1=10), "problem"),
        (SOURCE_FLOOR, spoken(a1=8), "problem"),
        (TARGET_FLOOR, spoken(a9=7, a1=11), "warning"),
        (TARGET_FLOOR, spoken(a60=0), "ok"),
    ],
)
def test_each_role_has_its_floor_and_brokers_without_topic_ids_are_named(floor, level_free, severity):
    (finding,) = judge_versions("A", [answer(broker=1, apis=level_free)], floor)
    assert finding.severity == severity


def test_an_upgrade_under_way_is_a_warning_that_names_the_brokers_of_each_release():
    told = [answer(broker=1, apis=spoken(30)), answer("two:9092", 2, apis=spoken(33))]
    (finding,) = judge_versions("A", told, TARGET_FLOOR)
    assert finding.severity == "warning"
    assert "Kafka 4.3: broker 1; Kafka 4.4: broker 2" in finding.message
