"""A token in a file is used until it ends, and read again; both clients of a login share one source."""

import asyncio
import base64
import json
import time

import pytest
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from mmtool.config.credentials import OAuthLogin, Security, TokenFileLogin
from mmtool.config.settings import ClusterSettings
from mmtool.errors import UnreachableError
from mmtool.kafka.clients import librdkafka_config, new_client, wire_options
from mmtool.kafka.tokens.token import TokenFile


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
