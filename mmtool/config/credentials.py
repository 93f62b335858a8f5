"""How a client connects and logs in, as typed settings: TLS, passwords and tokens; repr hides secrets."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, SecretStr

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
"""The mechanisms with a user name and a password."""


class Frozen(BaseModel):
    """A value of the settings."""

    model_config = ConfigDict(
        frozen=True, arbitrary_types_allowed=True, extra="forbid", hide_input_in_errors=True
    )


class Pem(Frozen):
    """A PEM document. Read once with the file, so that Spark workers need no copy of it on their disks.

    Attributes:
        origin: The file it was read from, or the key that holds it in line.
        text: The document.
    """

    origin: str
    text: SecretStr


class PasswordLogin(Frozen):
    """A user name and a password, with a mechanism that both librdkafka and aiokafka support."""

    mechanism: Mechanism
    username: str
    password: SecretStr

    @property
    def wire_mechanism(self) -> str:
        """The mechanism's name in requests to brokers."""
        return self.mechanism

    @property
    def description(self) -> str:
        """The mechanism and the user, for messages."""
        return f"{self.mechanism} as user {self.username}"

    def secrets(self) -> tuple[SecretStr, ...]:
        return (self.password,)


class TokenPace(Frozen):
    """When a token is asked for, by Kafka's keys; times in seconds.

    Attributes:
        connect_seconds: ``sasl.login.connect.timeout.ms``.
        read_seconds: ``sasl.login.read.timeout.ms``.
        backoff_seconds: ``sasl.login.retry.backoff.ms``, doubled after each failure.
        longest_backoff_seconds: ``sasl.login.retry.backoff.max.ms``.
        refresh_factor: ``sasl.login.refresh.window.factor``: the part of a token's life after which it is refreshed.
    """

    connect_seconds: float = 5.0
    read_seconds: float = 5.0
    backoff_seconds: float = 0.1
    longest_backoff_seconds: float = 10.0
    refresh_factor: float = 0.8


class _TokenLogin(Frozen):
    """A login with a bearer token, which brokers know as OAUTHBEARER.

    Attributes:
        mechanism: As in the file, or AWS_MSK_IAM where MSK's handler does the same with OAUTHBEARER.
        extensions: SASL extensions, sent with the token: ``logicalCluster``, ``identityPoolId``.
        subject_claim: The claim of a JWT that names the principal.
        pace: When a token is asked for.
        key: The key of the file that holds the secret or names the token's origin, for messages.
    """

    wire_mechanism: ClassVar[str] = "OAUTHBEARER"
    mechanism: Literal["OAUTHBEARER", "AWS_MSK_IAM"] = "OAUTHBEARER"
    extensions: tuple[tuple[str, str], ...] = ()
    subject_claim: str = "sub"
    pace: TokenPace = TokenPace()
    key: str

    def secrets(self) -> tuple[SecretStr, ...]:
        return ()


class OAuthLogin(_TokenLogin):
    """Client credentials (RFC 6749, section 4.4), which a token endpoint exchanges for a token.

    Attributes:
        endpoint: ``http`` or ``https`` URL.
        endpoint_key: The key that holds the URL.
        scope, audience: Sent with the request where they are not empty.
        encodes_header: ``sasl.oauthbearer.header.urlencode``.
        ca: The endpoint's CA from the JAAS options; None means the system's certificates and those of the cluster.
        verify_hostname: Of the endpoint.
        longest_life_seconds: The life after which a token is refreshed, whatever it says itself.
    """

    endpoint: str
    endpoint_key: str
    client_id: str
    client_secret: SecretStr
    scope: str = ""
    audience: str = ""
    encodes_header: bool = False
    ca: Pem | None = None
    verify_hostname: bool = True
    longest_life_seconds: int | None = None

    @property
    def description(self) -> str:
        """The mechanism and the client, for messages."""
        return f"{self.mechanism} as client {self.client_id}"

    def secrets(self) -> tuple[SecretStr, ...]:
        return (self.client_secret,)


class TokenFileLogin(_TokenLogin):
    """A token that another process keeps fresh in a file, as Kubernetes does; read again for each refresh."""

    path: str

    @property
    def description(self) -> str:
        """The mechanism and the file, for messages."""
        return f"{self.mechanism} with the token in {self.path}"


class MskLogin(_TokenLogin):
    """An IAM identity, with which a token for Amazon MSK is signed.

    Attributes:
        region: The AWS region of the cluster.
        profile: ``awsProfileName``; None means the default chain of credentials.
        role_arn: ``awsRoleArn``: the role to assume; ``awsRoleSessionName``, ``awsRoleExternalId`` and ``awsStsRegion``
            belong to it.
    """

    region: str
    profile: str | None = None
    role_arn: str | None = None
    role_session: str | None = None
    role_external_id: str | None = None
    sts_region: str | None = None

    @property
    def identity(self) -> str:
        """The AWS identity, for messages."""
        return self.role_arn or self.profile or "the default AWS identity"

    @property
    def description(self) -> str:
        """The mechanism and the identity, for messages."""
        return f"{self.mechanism} as {self.identity}"


TokenLogin = OAuthLogin | TokenFileLogin | MskLogin
Sasl = PasswordLogin | TokenLogin
"""mmtool's SASL login."""


class Security(Frozen):
    """The security settings of a client.

    Attributes:
        protocol: ``security.protocol``.
        sasl: Present exactly when the protocol is a SASL one.
        ca: Trusted certificates; None means the system's.
        certificate: The client's own certificate chain, for mutual TLS.
        key: Its private key; may be the same file.
        key_password: Of an encrypted private key.
        verify_hostname: ``ssl.endpoint.identification.algorithm=https``; an empty value turns it off.
    """

    protocol: Protocol = "PLAINTEXT"
    sasl: Sasl | None = None
    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    key_password: SecretStr | None = None
    verify_hostname: bool = True

    def secrets(self) -> frozenset[str]:
        """The passwords in plain text, for the console to redact."""
        found = (*(self.sasl.secrets() if self.sasl else ()), self.key_password)
        return frozenset(secret.get_secret_value() for secret in found if secret is not None)

    @property
    def uses_tls(self) -> bool:
        return self.protocol in {"SSL", "SASL_SSL"}
