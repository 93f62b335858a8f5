"""OAUTHBEARER and AWS_MSK_IAM in MirrorMaker 2's form become logins; what has no equal is refused by name."""

import pickle

import pytest

from mmtool.config.credentials import MskLogin, OAuthLogin, TokenFileLogin
from mmtool.config.token_logins import KAFKA_HANDLERS, MSK_CLIENT_HANDLER, MSK_OAUTH_HANDLER, STRIMZI_HANDLER
from mmtool.errors import ConfigError

CANARY = "canary-3f9c"
URL = "https://idp.example/realms/kafka/token"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
OAUTH = "security.protocol = SASL_SSL\nsasl.mechanism = OAUTHBEARER\n"
ENDPOINT = f"sasl.oauthbearer.token.endpoint.url = {URL}\n"
JAAS = f'sasl.jaas.config = {MODULE} required clientId="me" clientSecret="{CANARY}"'
CREDENTIALS = "sasl.oauthbearer.client.credentials.client"
MSK = "security.protocol = SASL_SSL\nsasl.mechanism = AWS_MSK_IAM\n"
IAM = "sasl.jaas.config = software.amazon.msk.auth.iam.IAMLoginModule required"
HANDLER = f"sasl.login.callback.handler.class = {STRIMZI_HANDLER}\n"
STRIMZI = f"{OAUTH}{HANDLER}sasl.jaas.config = {MODULE} required "
SCRAM = (
    "sasl.mechanism = SCRAM-SHA-256\n"
    "sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule"
)


def login_of(settings, alias="A"):
    return settings.clusters[alias].security.sasl


def refusal_of(load, text):
    with pytest.raises(ConfigError) as caught:
        load(text)
    assert CANARY not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("handler", ["", *KAFKA_HANDLERS])
def test_kafkas_handler_takes_the_client_from_jaas(handler, load):
    named = f"sasl.login.callback.handler.class = {handler}\n"
    found = login_of(load(f'{OAUTH}{ENDPOINT}{named}{JAAS} scope="kafka all";\n'))
    assert (found.endpoint, found.client_id, found.scope) == (URL, "me", "kafka all")
    assert (found.client_secret.get_secret_value(), found.key) == (CANARY, "sasl.jaas.config")


def test_the_keys_of_kip_1139_win_over_jaas(load):
    keys = f"{CREDENTIALS}.id = other\n{CREDENTIALS}.secret = {CANARY}-2\nsasl.oauthbearer.scope = s\n"
    found = login_of(load(f'{OAUTH}{ENDPOINT}{JAAS} scope="x";\n{keys}'))
    assert (found.client_id, found.scope, found.key) == ("other", "s", f"{CREDENTIALS}.secret")
    assert found.client_secret.get_secret_value() == f"{CANARY}-2"


def test_the_keys_of_kip_1139_need_no_jaas(load):
    found = login_of(load(f"{OAUTH}{ENDPOINT}{CREDENTIALS}.id = me\n{CREDENTIALS}.secret = {CANARY}\n"))
    assert found.client_id == "me"


def test_sasl_extensions_are_kept(load):
    options = 'extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2"'
    found = login_of(load(f"{OAUTH}{ENDPOINT}{JAAS} {options};\n"))
    assert dict(found.extensions) == {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}


def test_times_are_kafkas(load):
    keys = (
        "sasl.login.connect.timeout.ms = 1500\nsasl.login.read.timeout.ms = 2500\n"
        "sasl.login.retry.backoff.ms = 200\nsasl.login.retry.backoff.max.ms = 20000\n"
        "sasl.login.refresh.window.factor = 0.5\nsasl.oauthbearer.header.urlencode = true\n"
    )
    found = login_of(load(f"{OAUTH}{ENDPOINT}{JAAS};\n{keys}"))
    assert found.pace.model_dump() == {
        "connect_seconds": 1.5,
        "read_seconds": 2.5,
        "backoff_seconds": 0.2,
        "longest_backoff_seconds": 20.0,
        "refresh_factor": 0.5,
    }
    assert found.encodes_header


def test_the_endpoints_ca_is_in_the_jaas_options_as_in_java(load, pem):
    options = f'ssl.truststore.type="PEM" ssl.truststore.location="{pem}/cert.pem"'
    found = login_of(load(f"{OAUTH}{ENDPOINT}{JAAS} {options};\n"))
    assert found.ca.text.get_secret_value() == (pem / "cert.pem").read_text()


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_the_clusters_ca_is_kept_for_the_endpoint_also_where_brokers_use_no_tls(load, pem, protocol):
    keys = f"ssl.truststore.type = PEM\nssl.truststore.location = {pem}/cert.pem\nsecurity.protocol = {protocol}\n"
    found = load(f"{OAUTH}{ENDPOINT}{JAAS};\n{keys}").clusters["A"].security
    assert found.ca.text.get_secret_value() == (pem / "cert.pem").read_text()


def test_a_token_may_be_in_a_file(load):
    found = login_of(load(f"{OAUTH}sasl.oauthbearer.token.endpoint.url = file:///run/secrets/a%20token\n"))
    assert isinstance(found, TokenFileLogin)
    assert found.path == "/run/secrets/a token"


def test_strimzis_handler_has_options_of_its_own(load, pem):
    options = (
        f'oauth.client.id="me" oauth.client.secret="{CANARY}" oauth.token.endpoint.uri="{URL}" oauth.scope="s" '
        f'oauth.audience="kafka" oauth.ssl.truststore.location="{pem}/cert.pem" oauth.ssl.truststore.type="PEM" '
        'oauth.ssl.endpoint.identification.algorithm="" oauth.read.timeout.seconds="7" '
        'oauth.max.token.expiry.seconds="120" oauth.sasl.extension.pool="p";'
    )
    found = login_of(load(STRIMZI + options + "\n"))
    assert (found.endpoint, found.client_id, found.scope, found.audience) == (URL, "me", "s", "kafka")
    assert found.ca.text.get_secret_value() == (pem / "cert.pem").read_text()
    assert (found.verify_hostname, found.pace.read_seconds, found.longest_life_seconds) == (False, 7, 120)
    assert dict(found.extensions) == {"pool": "p"}


def test_strimzis_token_file_is_read(load):
    found = login_of(load(f'{STRIMZI}oauth.access.token.location="/run/token";\n'))
    assert (type(found), found.path) == (TokenFileLogin, "/run/token")


@pytest.mark.parametrize(
    ("server", "region"),
    [
        ("b-1.orders.abc.c2.kafka.eu-west-1.amazonaws.com:9098", "eu-west-1"),
        ("boot-abc.c1.kafka-serverless.us-east-2.amazonaws.com:9098", "us-east-2"),
        ("b-1.orders.abc.c2.kafka.cn-north-1.amazonaws.com.cn:9098", "cn-north-1"),
        ("kafka.internal:9098", "ap-south-1"),
    ],
)
def test_the_brokers_names_tell_the_region_and_the_environment_where_they_do_not(
    server, region, load, monkeypatch
):
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    found = login_of(load(f"{MSK}{IAM};\nA.bootstrap.servers = {server}\n"))
    assert (type(found), found.region, found.wire_mechanism) == (MskLogin, region, "OAUTHBEARER")


def test_the_options_of_the_iam_module_are_read(load, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    options = 'awsRoleArn="arn:aws:iam::1:role/r" awsRoleSessionName="s" awsStsRegion="eu-west-2" awsProfileName="p"'
    handler = f"sasl.client.callback.handler.class = {MSK_CLIENT_HANDLER}\n"
    found = login_of(load(f"{MSK}{IAM} {options};\n{handler}"))
    assert (found.role_arn, found.role_session) == ("arn:aws:iam::1:role/r", "s")
    assert (found.sts_region, found.profile) == ("eu-west-2", "p")


def test_iam_through_oauthbearer_is_the_same_login(load, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    handler = f"sasl.login.callback.handler.class = {MSK_OAUTH_HANDLER}\n"
    assert isinstance(login_of(load(f"{OAUTH}{handler}sasl.jaas.config = {MODULE} required;\n")), MskLogin)


def test_a_login_reaches_sparks_workers_and_shows_no_secret(load):
    settings = load(f"{OAUTH}{ENDPOINT}{JAAS};\n")
    sent = pickle.loads(pickle.dumps(settings.clusters["A"]))  # noqa: S301  our own bytes
    assert sent.security.sasl == login_of(settings)
    assert isinstance(sent.security.sasl, OAuthLogin)
    assert CANARY not in repr(settings)
    assert settings.secrets() == {CANARY}


@pytest.mark.parametrize(
    ("handler", "offered"),
    [
        ("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler", True),
        ("io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler", False),
    ],
)
def test_keys_instead_of_jaas_are_offered_where_the_login_handler_reads_them(load, handler, offered):
    lines = (
        f"sasl.mechanism = OAUTHBEARER\nsasl.login.callback.handler.class = {handler}\nsasl.jaas.config = x\n"
    )
    said = refusal_of(load, f"security.protocol = SASL_SSL\n{lines}")
    assert (
        'as `org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId="' in said
    ) is offered
    assert ("write the client to sasl.oauthbearer.client.credentials.client.id" in said) is offered


def test_a_cluster_without_a_region_is_refused(load, monkeypatch):
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    assert "set the environment variable AWS_REGION" in refusal_of(load, f"{MSK}{IAM};\n")


def test_without_the_extra_the_error_tells_how_to_install_it(load, monkeypatch):
    monkeypatch.setattr("mmtool.config.token_logins.find_spec", lambda _: None)
    assert "pip install 'mmtool[msk]'" in refusal_of(load, f"{MSK}{IAM};\n")
