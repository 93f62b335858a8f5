"""One token serves all threads and is renewed in time, a file's too; what goes wrong is told in words."""

import asyncio
import base64
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka.admin import AdminClient
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from mmtool.config.credentials import OAuthLogin, Security, TokenFileLogin, TokenPace
from mmtool.config.settings import ClusterSettings
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.events import Event
from mmtool.kafka.clients import librdkafka_config, new_client, wire_options
from mmtool.kafka.errors import cause_of_refusal, readable_refusal, remedy_of
from mmtool.kafka.tokens.source import ClientTokens, TokenSource, report_trouble_to
from mmtool.kafka.tokens.token import Token, TokenFile, claims_of, life_seconds
from mmtool.lab.ports import wait_until

AWAY = UnreachableError("cluster A: the token endpoint does not answer", remedy="wait")
DENIED = NotAuthorisedError("cluster A: the token endpoint refuses client me", remedy="the key")
LOGIN = TokenFileLogin(
    mechanism="OAUTHBEARER", path="/secrets/token", key="sasl.oauthbearer.token.endpoint.url"
)
IMPATIENT = TokenPace(longest_backoff_seconds=0.05, backoff_seconds=0.02)


class Endpoint:
    """Counts requests, and answers with tokens that live for 100 s of a clock that only the test moves."""

    def __init__(self, pace=IMPATIENT):
        self.now = 1000.0
        self.requests = 0
        self.failure = None
        self.held = threading.Event()
        self.held.set()
        self.source = TokenSource("A", self.fetch, pace, lambda: self.now)

    def fetch(self):
        self.requests += 1
        self.held.wait(10)
        if self.failure is not None:
            raise self.failure
        return Token(f"token {self.requests}", self.now, self.now + 100, "me")

    def value(self):
        return self.source.token().value

    def value_once_refreshed(self, value):
        wait_until(lambda: self.value() == value, f"{value} is there", 5)


@pytest.fixture
def endpoint():
    return Endpoint()


@pytest.fixture
def heard():
    notices = []
    report_trouble_to(notices.append)
    yield notices
    report_trouble_to(lambda _: None)


def test_many_threads_share_one_request(endpoint):
    endpoint.held.clear()
    with ThreadPoolExecutor(20) as pool:
        asked = [pool.submit(endpoint.value) for _ in range(20)]
        time.sleep(0.05)
        endpoint.held.set()
        assert {future.result() for future in asked} == {"token 1"}
    assert endpoint.requests == 1


def test_a_token_is_kept_for_80_percent_of_its_life(endpoint):
    first = endpoint.value()
    endpoint.now += 79
    assert (first, endpoint.value(), endpoint.requests) == ("token 1", "token 1", 1)
    endpoint.now += 2
    endpoint.value_once_refreshed("token 2")


def test_a_valid_token_is_used_while_the_next_one_is_on_its_way(endpoint):
    endpoint.value()
    endpoint.now += 85
    endpoint.held.clear()
    started = time.monotonic()
    assert endpoint.value() == "token 1"
    assert time.monotonic() - started < 3
    endpoint.held.set()
    endpoint.value_once_refreshed("token 2")


def asks_again_after(endpoint):
    """Seconds after which librdkafka asks for another token: at 80 % of the time until the given expiry."""
    told = ClientTokens(endpoint.source, LOGIN, lambda: endpoint.now)("")
    return 0.8 * (told[1] - endpoint.now)


@given(age=st.floats(0, 79))
def test_librdkafka_asks_for_a_token_when_the_source_refreshes_however_old_the_first_one_was(age):
    endpoint = Endpoint()
    endpoint.value()
    endpoint.now += age
    assert asks_again_after(endpoint) == pytest.approx(80 - age)


def test_librdkafka_asks_once_a_second_for_a_token_that_could_not_be_refreshed(endpoint):
    endpoint.value()
    endpoint.failure = AWAY
    endpoint.now += 99
    assert asks_again_after(endpoint) == pytest.approx(1)


def test_an_endpoint_away_at_a_refresh_is_reported_once_and_the_token_still_used(endpoint, heard):
    endpoint.value()
    endpoint.failure = AWAY
    for _ in range(10):
        endpoint.now += 1.5 if endpoint.now > 1080 else 81
        assert endpoint.value() == "token 1"
    assert [notice.event for notice in heard] == [Event.TOKEN_REFRESH_FAILED]
    assert "the last token is valid until 00:18:20Z" in heard[0]


def test_a_second_absence_is_reported_again(endpoint, heard):
    endpoint.value()
    for number in (1, 2):
        endpoint.failure = AWAY
        endpoint.now += 85
        endpoint.value()
        wait_until(lambda number=number: len(heard) == number, "a notice", 5)
        endpoint.failure = None
        endpoint.now += 2
        endpoint.value()
        wait_until(lambda: endpoint.source._failure is None, "a new token", 5)


def test_an_absent_endpoint_is_asked_in_growing_intervals(heard):
    endpoint = Endpoint(TokenPace(longest_backoff_seconds=10))
    endpoint.value()
    endpoint.failure = AWAY
    endpoint.now += 80
    before = endpoint.requests
    for _ in range(190):  # 19 s, asked ten times a second
        endpoint.now += 0.1
        endpoint.value()
    assert endpoint.requests - before <= 5


def test_an_expired_token_is_not_used(endpoint):
    endpoint.value()
    endpoint.failure = AWAY
    endpoint.now += 101
    with pytest.raises(UnreachableError, match="does not answer"):
        endpoint.value()


def test_the_first_token_is_asked_for_again_for_a_moment_and_then_the_same_error_is_raised_at_once():
    endpoint = Endpoint(TokenPace(backoff_seconds=0.01, longest_backoff_seconds=30))
    endpoint.source._now = time.time
    endpoint.failure = AWAY
    with pytest.raises(UnreachableError):
        endpoint.value()
    after_first = endpoint.requests
    for _ in range(5):
        with pytest.raises(UnreachableError, match="does not answer"):
            endpoint.value()
    assert 5 < after_first < 15
    assert endpoint.requests == after_first


def test_refused_credentials_are_not_tried_again(endpoint):
    endpoint.failure = DENIED
    for _ in range(3):
        with pytest.raises(NotAuthorisedError) as caught:
            endpoint.value()
    assert (endpoint.requests, caught.value.remedy) == (1, "the key")


def test_an_unexpected_error_does_not_leave_callers_waiting_or_show_its_text(endpoint):
    endpoint.failure = ValueError("canary")
    with pytest.raises(UnreachableError) as caught:
        endpoint.value()
    assert caught.value.message == "cluster A: getting a token failed: ValueError"


def test_a_token_is_not_in_its_repr():
    assert "canary" not in repr(Token("canary", 0, 1, "me"))


@given(st.text() | st.binary().map(bytes.hex).map(lambda text: f"a.{text}.b"))
def test_any_text_has_claims_or_none(text):
    assert isinstance(claims_of(text), dict)


numbers = st.none() | st.integers() | st.floats(allow_nan=True) | st.text() | st.booleans()


@given(numbers, numbers, numbers)
def test_any_claims_have_a_life_or_none(issued, expires, expires_in):
    life = life_seconds({"iat": issued, "exp": expires}, expires_in, 1000.0)
    assert life is None or abs(life) < 1e13


@pytest.mark.parametrize(
    ("claims", "expires_in", "life"),
    [
        ({"iat": 5000, "exp": 5300}, 60, 60),
        ({"iat": 5000, "exp": 5300}, None, 300),  # by the endpoint's clock, not by this host's
        ({"exp": 1300}, None, 300),
        ({}, "3599", 3599),
        ({}, None, None),
    ],
)
def test_a_life_does_not_depend_on_the_hosts_clock_where_it_need_not(claims, expires_in, life):
    assert life_seconds(claims, expires_in, 1000.0) == life


TOLD = "the brokers do not accept the token (invalid_token)"


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('[Error 58] SaslAuthenticationFailed: {"status":"invalid_token"}', TOLD),
        ('a:1: SASL authentication error: {"status":"invalid_token"} (after 3ms in state AUTH_REQ)', TOLD),
        ('{"status":"insufficient_scope","scope":"kafka"}', None),
        ("wrong password", "wrong password"),
        ('{"error":1}', '{"error":1}'),
    ],
)
def test_the_reason_is_told(said, told):
    expected = told or "the brokers do not accept the token (insufficient_scope); they expect the scope kafka"
    assert readable_refusal(said) == expected


@given(st.text().map(lambda text: f'x {{"{text}'))
def test_any_text_is_told(said):
    assert isinstance(readable_refusal(said), str)


def test_a_token_that_brokers_refuse_is_no_wrong_password():
    cause = cause_of_refusal(
        "SASL_AUTHENTICATION_FAILED", 'SASL authentication error: {"status":"invalid_token"}'
    )
    assert remedy_of(cause, "west").startswith("compare audience, issuer and scope of the token")
    assert cause_of_refusal("SASL_AUTHENTICATION_FAILED", "wrong password") == "SASL_AUTHENTICATION_FAILED"


def jwt(**claims):
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{body}.canary"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "token"


def login(file):
    return TokenFileLogin(path=str(file), key="A.sasl.oauthbearer.token.endpoint.url")


def test_a_token_in_a_file_lives_as_long_as_it_says(file):
    expires = int(time.time()) + 60
    file.write_text(jwt(sub="me", exp=expires) + "\n")
    token = TokenFile("A", login(file)).fetch()
    assert (token.principal, token.expires) == ("me", expires)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        ("", "it has no token"),
        (jwt(exp=1), "has expired"),
        (jwt(exp=10**400), r"the expiry time \(exp\) of its token is not a number"),
        ("a\x01b", "it has no token"),
    ],
)
def test_a_file_without_a_usable_token_is_named(file, content, why):
    if content is not None:
        file.write_text(content)
    with pytest.raises(
        UnreachableError, match=f"cluster A: the token file {file} cannot be used: .*{why}"
    ) as caught:
        TokenFile("A", login(file)).fetch()
    assert "canary" not in caught.value.message


def test_both_clients_of_a_cluster_use_one_token(file):
    file.write_text(jwt(sub="me", exp=int(time.time()) + 3600))
    security = Security(protocol="SASL_PLAINTEXT", sasl=login(file))
    cluster = ClusterSettings(alias="A", bootstrap_servers="127.0.0.1:1", security=security)
    callback = librdkafka_config(cluster, role="admin")["oauth_cb"]
    provider = wire_options(cluster)["sasl_oauth_token_provider"]
    value, _, principal, _ = callback("")
    file.unlink()
    assert (asyncio.run(provider.token()), principal) == (value, "me")


def test_a_client_without_a_token_is_not_created_and_the_endpoint_named():
    values = {"endpoint": "http://127.0.0.1:1/token", "endpoint_key": "A.url", "key": "A.sasl.jaas.config"}
    absent = OAuthLogin(client_id="me", client_secret=SecretStr("canary"), **values)
    absent = absent.model_copy(
        update={"pace": absent.pace.model_copy(update={"longest_backoff_seconds": 0.1})}
    )
    cluster = ClusterSettings(
        alias="A",
        bootstrap_servers="127.0.0.1:1",
        security=Security(protocol="SASL_PLAINTEXT", sasl=absent),
    )
    with pytest.raises(UnreachableError, match=r"endpoint http://127\.0\.0\.1:1/token does not answer"):
        new_client(AdminClient, librdkafka_config(cluster, role="admin"), cluster)
