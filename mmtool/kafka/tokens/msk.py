"""Sign a token for Amazon MSK with an IAM identity (AWS Signature Version 4)."""

from __future__ import annotations

import base64
import binascii
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from mmtool.errors import NotAuthorisedError, UnreachableError
from mmtool.kafka.tokens.token import Token

if TYPE_CHECKING:
    from mmtool.config.settings import MskLogin

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
        from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

        now = time.time()
        try:
            value = self._signed()
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
        return Token(
            value, now, now + signed_seconds(value), self.login.role_arn or self.login.profile or "iam"
        )

    def _signed(self) -> str:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer

        value, _ = Signer.generate_auth_token_from_credentials_provider(self.login.region, self._provider())
        return str(value)

    def _provider(self) -> Any:
        """The login's credentials, as the signer takes them."""
        from botocore.credentials import CredentialProvider

        load = self._credentials

        class Provider(CredentialProvider):  # type: ignore[misc]  # botocore has no types
            def load(self) -> Any:
                return load()

        return Provider()

    def _credentials(self) -> Any:
        from botocore.session import Session

        login = self.login
        session = Session(profile=login.profile)
        if login.role_arn is not None:
            return self._assumed(session, login.role_arn)
        found = session.get_credentials()
        if found is None:
            raise ValueError("none found in the environment, the profile or the host's identity")
        return found

    def _assumed(self, session: Any, role_arn: str) -> Any:
        from botocore.credentials import Credentials

        login = self.login
        client = session.create_client("sts", region_name=login.sts_region or login.region)
        extra = {"ExternalId": login.role_external_id} if login.role_external_id else {}
        answer = client.assume_role(RoleArn=role_arn, RoleSessionName=login.role_session or _SESSION, **extra)
        found = answer["Credentials"]
        return Credentials(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])


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
