"""The lab's token endpoint: it grants what RFC 6749 says, and fails as tests ask it to."""

import base64
import json
from http import HTTPStatus
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from mmtool.lab.security.token_endpoint import TokenEndpoint, TokenPolicy

SECRET = "s3cret%"  # noqa: S105  of this test alone
POLICY = TokenPolicy({"mmtool": SECRET}, lifetime_seconds=60, scopes=frozenset({"kafka", "other"}))
GRANT = "client_credentials"


@pytest.fixture(scope="module")
def endpoint():
    with TokenEndpoint(POLICY) as running:
        yield running


def ask(endpoint, client="mmtool", secret=SECRET, **form):
    """The status and the document of the answer to a request in Kafka's form."""
    form = {"grant_type": GRANT, **form}
    login = base64.b64encode(f"{client}:{secret}".encode()).decode()
    request = Request(endpoint.url, urlencode(form).encode(), {"Authorization": f"Basic {login}"})  # noqa: S310  http, of this test
    try:
        with urlopen(request, timeout=5) as answer:  # noqa: S310  http, of this test
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, error.read()


def decoded(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def test_a_token_says_who_asked_and_until_when_it_holds(endpoint):
    status, answer = ask(endpoint, scope="kafka")
    claims = json.loads(decoded(answer["access_token"].split(".")[1]))
    assert (status, answer["token_type"], answer["expires_in"]) == (200, "Bearer", 60)
    assert (claims["sub"], claims["scope"], claims["exp"] - claims["iat"]) == ("mmtool", "kafka", 60)


@pytest.mark.parametrize(
    ("wrong", "status", "error"),
    [
        ({"secret": "other"}, 401, "invalid_client"),
        ({"client": "stranger"}, 401, "invalid_client"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"scope": "kafka admin"}, 400, "invalid_scope"),
    ],
)
def test_a_wrong_request_is_refused_with_the_standard_error(endpoint, wrong, status, error):
    code, body = ask(endpoint, **wrong)
    assert (code, json.loads(body)) == (status, {"error": error})


def test_credentials_in_the_form_are_accepted_as_well(endpoint):
    form = {"grant_type": GRANT, "client_id": "mmtool", "client_secret": SECRET}
    with urlopen(endpoint.url, urlencode(form).encode(), timeout=5) as answer:  # noqa: S310  http, of this test
        assert answer.status == 200


def test_a_failure_lasts_until_it_is_taken_back_and_requests_are_counted(endpoint):
    endpoint.answers.clear()
    endpoint.failure = HTTPStatus.BAD_GATEWAY
    codes = [ask(endpoint)[0]]
    endpoint.failure = None
    codes.append(ask(endpoint)[0])
    assert codes == [502, 200]
    assert endpoint.answers == codes


def test_no_secret_is_in_a_representation():
    assert "s3cret" not in repr(POLICY)
