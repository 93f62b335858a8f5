"""A refused token is told in words, whatever the broker wrote around its reason."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmtool.kafka.errors import cause_of_refusal, readable_refusal, remedy_of

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
