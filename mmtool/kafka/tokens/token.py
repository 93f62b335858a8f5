"""A bearer token, its life and its claims; and the token of Amazon MSK, signed with an IAM identity."""

from __future__ import annotations

import base64
import binascii
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.translation.connect_offsets import parse_json

if TYPE_CHECKING:
    from mmtool.config.credentials import MskLogin, TokenFileLogin


_OPAQUE_SECONDS = 300.0
"""How long an opaque token is used before the file is read again, in seconds."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token as brokers get it. Times are seconds of the Unix epoch, by this host's clock.

    Attributes:
        value: The token itself, a secret.
        issued: When it was obtained.
        expires: When it ends.
        principal: The name in it, or the client's id.
    """

    value: str = field(repr=False)
    issued: float
    expires: float
    principal: str


def claims_of(value: str) -> dict[str, Any]:
    """The claims of a JWT, not verified: that is the broker's work. Empty where the token is opaque."""
    parts = value.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = parse_json(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:  # binascii's as well
        return {}
    return found if isinstance(found, dict) else {}


def name_in(claims: dict[str, Any], claim: str) -> str:
    """The principal's name in a claim; empty where it has none."""
    name = claims.get(claim)
    return name if isinstance(name, str) else ""


def life_seconds(claims: dict[str, Any], expires_in: object, now: float) -> float | None:
    """How long a token lives from now on, in seconds; None where nothing says it.

    The endpoint's own figure and the distance of ``iat`` and ``exp`` do not depend on this host's clock, so they win
    over ``exp`` alone.
    """
    issued, expires = finite_number(claims.get("iat")), finite_number(claims.get("exp"))
    given = finite_number(expires_in)
    if given is not None:
        return given
    if expires is None:
        return None
    return expires - (now if issued is None else issued)


def finite_number(value: object) -> float | None:
    """A finite number, also one written as text, as Azure's older endpoint answers ``expires_in``."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < 1e12 else None


@dataclass(frozen=True, slots=True)
class TokenFile:
    """The token file of one cluster's login."""

    alias: str
    login: TokenFileLogin

    def fetch(self) -> Token:
        """The token in the file.

        Raises:
            UnreachableError: The file cannot be read, or its token has expired.
        """
        now = time.time()
        try:
            value = Path(self.login.path).read_text(encoding="ascii").strip()
        except (OSError, ValueError) as error:
            raise self._away(getattr(error, "strerror", None) or "it is not ASCII text") from None
        if not value or not value.isprintable():
            raise self._away("it has no token")
        claims = claims_of(value)
        expires = finite_number(claims.get("exp", now + _OPAQUE_SECONDS))
        if expires is None:
            raise self._away("the expiry time (exp) of its token is not a number")
        if expires <= now:
            raise self._away("its token has expired")
        return Token(value, now, expires, name_in(claims, self.login.subject_claim) or self.login.path)

    def _away(self, why: str) -> UnreachableError:
        return UnreachableError(
            f"cluster {self.alias}: the token file {self.login.path} cannot be used: {why}",
            remedy=f"check {self.login.key}, and the process that writes the file",
        )


_SESSION = "mmtool"


@dataclass(frozen=True, slots=True)
class MskSigner:
    """The signer of one cluster's login."""

    alias: str
    login: MskLogin

    def fetch(self) -> Token:
        """A new token; AWS is asked only where a role is assumed or the host's own identity is looked up.

        Raises:
            UnreachableError: AWS does not answer.
            NotAuthorisedError: There are no credentials, or AWS refuses the role.
        """
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer
        from botocore.credentials import CredentialProvider
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        load = self._credentials

        class Provider(CredentialProvider):  # type: ignore[misc]  # botocore has no types
            """The login's credentials, as the signer takes them."""

            def load(self) -> Any:
                return load()

        now, region = time.time(), self.login.region
        try:
            signed, _ = Signer.generate_auth_token_from_credentials_provider(region, Provider())
        except HTTPClientError as error:
            raise UnreachableError(
                f"cluster {self.alias}: AWS does not answer: {_first_line(error)}",
                remedy="check the network between this host and AWS",
            ) from None
        except (BotoCoreError, ClientError, ValueError) as error:
            raise NotAuthorisedError(
                f"cluster {self.alias}: AWS gives no credentials for {self.login.identity}: {_first_line(error)}",
                remedy=f"check {self.login.key} and the AWS credentials: `aws sts get-caller-identity` shows whose they"
                " are",
            ) from None
        value, principal = str(signed), self.login.role_arn or self.login.profile or "iam"
        return Token(value, now, now + signed_seconds(value), principal)

    def _credentials(self) -> Any:
        from botocore.credentials import Credentials
        from botocore.session import Session

        login = self.login
        session = Session(profile=login.profile)
        if login.role_arn is None:
            found = session.get_credentials()
            if found is None:
                raise ValueError("none found in the environment, the profile or the host's identity")
            return found
        client = session.create_client("sts", region_name=login.sts_region or login.region)
        extra = {"ExternalId": login.role_external_id} if login.role_external_id else {}
        name = login.role_session or _SESSION
        assumed = client.assume_role(RoleArn=login.role_arn, RoleSessionName=name, **extra)["Credentials"]
        return Credentials(assumed["AccessKeyId"], assumed["SecretAccessKey"], assumed["SessionToken"])


def signed_seconds(value: str) -> float:
    """The life of a signed token, in seconds: what its URL says."""
    try:
        url = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4)).decode()
        return float(parse_qs(urlsplit(url).query)["X-Amz-Expires"][0])
    except (ValueError, KeyError, binascii.Error) as error:
        raise UnreachableError(
            "the AWS signer made a token without X-Amz-Expires",
            remedy="install the newest release of the package aws-msk-iam-sasl-signer-python",
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
