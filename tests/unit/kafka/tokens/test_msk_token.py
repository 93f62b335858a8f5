"""The token for Amazon MSK is the signed URL that its brokers verify. AWS is not asked: credentials are invented."""

import base64
from urllib.parse import parse_qs, urlsplit

import pytest

from mmtool.config.credentials import MskLogin
from mmtool.errors import NotAuthorisedError
from mmtool.kafka.tokens.token import MskSigner


@pytest.fixture(autouse=True)
def no_aws(monkeypatch, tmp_path):
    """No credentials but those of a test."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    return tmp_path


def signer(**changed):
    return MskSigner(
        "A", MskLogin(mechanism="AWS_MSK_IAM", key="A.sasl.jaas.config", region="eu-west-1", **changed)
    )


def parts(token):
    return urlsplit(base64.urlsafe_b64decode(token.value + "=" * (-len(token.value) % 4)).decode())


@pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo"])
def test_a_token_is_a_signed_url_of_the_region_that_lives_15_minutes(monkeypatch, zone):
    monkeypatch.setenv("TZ", zone)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    token = signer().fetch()
    url = parts(token)
    query = {name: values[0] for name, values in parse_qs(url.query).items()}
    assert (url.scheme, url.netloc) == ("https", "kafka.eu-west-1.amazonaws.com")
    assert query["Action"] == "kafka-cluster:Connect"
    assert query["X-Amz-Credential"].startswith("AKIDEXAMPLE/")
    assert query["X-Amz-Credential"].endswith("/eu-west-1/kafka-cluster/aws4_request")
    assert (query["X-Amz-Expires"], round(token.expires - token.issued)) == ("900", 900)
    assert len(query["X-Amz-Signature"]) == 64
    assert "canary" not in url.geturl()


def test_a_profile_has_credentials_of_its_own(no_aws):
    (no_aws / "credentials").write_text(
        "[p]\naws_access_key_id = AKIDPROFILE\naws_secret_access_key = canary\n"
    )
    assert "AKIDPROFILE" in parts(signer(profile="p").fetch()).query


@pytest.mark.parametrize("profile", [None, "absent"])
def test_without_credentials_the_error_names_the_identity_and_the_key(profile):
    with pytest.raises(NotAuthorisedError, match="cluster A: AWS gives no credentials for ") as caught:
        signer(profile=profile).fetch()
    assert "A.sasl.jaas.config" in caught.value.remedy
