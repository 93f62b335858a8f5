"""Client credentials become a token at a real HTTP server; what goes wrong there is one sentence without a secret."""

import json
import ssl
import threading
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from pydantic import SecretStr

from mmtool.config.credentials import OAuthLogin, Pem, TokenPace
from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.tokens.endpoint import TokenEndpoint
from mmtool.lab.security.certificates import Authority, pem_identity
from mmtool.lab.security.token_endpoint import TokenEndpoint as LabEndpoint
from mmtool.lab.security.token_endpoint import TokenPolicy

SECRET = "canary/+ %é"  # noqa: S105  of this test alone
PACE = TokenPace(connect_seconds=0.5, read_seconds=0.5)


@pytest.fixture(scope="module")
def lab():
    with LabEndpoint(TokenPolicy({"me": SECRET, "m e+": SECRET}, lifetime_seconds=60)) as running:
        yield running


def asking(endpoint, **changed):
    values = {
        "endpoint": endpoint,
        "endpoint_key": "A.sasl.oauthbearer.token.endpoint.url",
        "client_id": "me",
        "client_secret": SecretStr(SECRET),
        "key": "A.sasl.jaas.config",
        "pace": PACE,
    }
    return TokenEndpoint("A", OAuthLogin(**values | changed), None)


@contextmanager
def answering(status, body, *, location="", silent=False, tls=None):
    """A server with one answer; yields its URL and the requests that it got, as (headers, body)."""
    asked, ended = [], threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            asked.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"])).decode()))
            if silent:
                ended.wait(10)
            self.send_response(status)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Write no access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield (
            f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}/token?tenant=canary",
            asked,
        )
    finally:
        ended.set()
        server.shutdown()
        server.server_close()


def failure_of(url, **changed):
    with pytest.raises(UnreachableError) as caught:
        asking(url, **changed).fetch()
    assert "canary" not in f"{caught.value.message}{caught.value.remedy}"
    return caught.value


@pytest.mark.parametrize("encodes", [False, True])
def test_a_client_gets_a_token_and_its_principal(lab, encodes):
    token = asking(lab.url, client_id="m e+", scope="kafka", encodes_header=encodes).fetch()
    assert (token.principal, round(token.expires - token.issued)) == ("m e+", 60)


def test_a_wrong_secret_is_refused_and_its_key_named(lab):
    with pytest.raises(NotAuthorisedError) as caught:
        asking(lab.url, client_secret=SecretStr("canary")).fetch()
    assert caught.value.message.endswith(f"{lab.url} refuses client me: invalid_client: HTTP 401")
    assert caught.value.remedy.endswith("; A.sasl.jaas.config holds the secret")


def test_an_endpoint_that_is_away_is_named_with_its_cluster():
    with answering(200, b"") as (url, _):
        pass
    error = failure_of(url)
    assert error.message.startswith("cluster A: the token endpoint ")
    assert error.message.endswith(f"{url.partition('?')[0]} does not answer: Connection refused")
    assert error.remedy.startswith("check A.sasl.oauthbearer.token.endpoint.url")


def test_an_endpoint_that_accepts_and_stays_silent_is_given_up_in_time():
    with answering(200, b"", silent=True) as (url, _):
        assert "does not answer: no answer in time" in failure_of(url).message


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (503, b"<html>", "answers HTTP 503"),
        (429, b"{}", "answers HTTP 429"),
        (404, b"", "answers HTTP 404"),
        (200, b"", "answers without an access_token"),
        (200, b"[1]", "answers without an access_token"),
        (200, b'{"access_token": 5}', "answers without an access_token"),
        (200, b'{"access_token": "a\\u0001b", "expires_in": 5}', "answers without an access_token"),
        (200, b'{"access_token": "opaque"}', "grants a token that has expired or has no expiry"),
        (200, b'{"access_token": "opaque", "expires_in": -1}', "grants a token that has expired or has no"),
        (200, b"[" * 100_000, "answers without an access_token"),
    ],
)
def test_an_answer_without_a_token_is_one_sentence(status, body, said):
    with answering(status, body) as (url, _):
        error = failure_of(url)
        assert (said in error.message, type(error)) == (True, UnreachableError)


def test_what_the_endpoint_says_is_quoted_in_one_line_without_the_secret():
    said = {
        "error": "invalid_client",
        "error_description": f"secret {SECRET}\n\x1b[31mis wrong " + "x" * 5000,
    }
    with answering(400, json.dumps(said).encode()) as (url, _):
        error = failure_of(url)
    assert isinstance(error, NotAuthorisedError)
    assert "refuses client me: invalid_client: secret [hidden] \\x1b[31mis wrong xxx" in error.message
    assert len(error.message) < 400


def test_a_redirection_does_not_carry_the_secret_elsewhere():
    with answering(200, b"{}") as (other, asked), answering(302, b"", location=other) as (url, _):
        assert "answers HTTP 302" in failure_of(url).message
    assert asked == []


def test_the_request_has_kafkas_form():
    body = json.dumps({"access_token": "opaque", "expires_in": 60}).encode()
    with answering(200, body) as (url, asked):
        asking(url, scope="a b&c=d%20e", audience="x&y").fetch()
    ((headers, form),) = asked
    assert form == "grant_type=client_credentials&scope=a%20b%26c=d%20e&audience=x%26y"
    assert (headers["Content-Type"], headers["Accept"]) == (
        "application/x-www-form-urlencoded",
        "application/json",
    )


def test_the_longest_life_of_strimzi_shortens_a_token():
    body = json.dumps({"access_token": "opaque", "expires_in": 3600}).encode()
    with answering(200, body) as (url, _):
        token = asking(url, longest_life_seconds=120).fetch()
    assert round(token.expires - token.issued) == 120


@pytest.fixture(scope="module")
def authority():
    return Authority.create()


@pytest.fixture(scope="module")
def secure(authority, tmp_path_factory):
    """The URL of an endpoint with a certificate of the authority."""
    file = tmp_path_factory.mktemp("tls") / "endpoint.pem"
    file.write_bytes(pem_identity(authority.issue("endpoint"), authority))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file)
    with answering(200, b'{"access_token": "opaque", "expires_in": 60}', tls=tls) as (url, _):
        yield url


@pytest.mark.parametrize("of", ["the login", "the cluster"])
def test_the_endpoints_certificate_is_verified_with_the_ca_of_the_login_or_of_the_cluster(
    of, secure, authority
):
    ca = Pem(origin="ca.pem", text=SecretStr(authority.certificate_pem().decode()))
    asked = asking(secure, ca=ca) if of == "the login" else replace(asking(secure), cluster_ca=ca)
    token = asked.fetch()
    assert round(token.expires - token.issued) == 60


def test_a_certificate_that_is_not_trusted_is_told_with_the_key_to_set(secure):
    error = failure_of(secure)
    assert "shows a certificate that is not trusted: " in error.message
    assert error.remedy.startswith("set A.ssl.truststore.location to a file")
