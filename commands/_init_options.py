"""The options of `mmtool init`: for each side of the flow the same ones."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from mmtool.commands._options import config_option, timeout_option

Timeout = Annotated[timedelta, timeout_option("8s")]
NEW_FILE = Path("mm2.properties")
NewConfig = Annotated[Path | None, config_option(f"The file to write.  [default: {NEW_FILE}]")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
NoProbe = Annotated[
    bool,
    typer.Option("--no-probe", help="Connect to no cluster; without this option mmtool connects to both."),
]
Yes = Annotated[
    bool,
    typer.Option(
        "--yes",
        help="Ask no questions: the aliases and bootstrap servers of both clusters must be given; other options have"
        " their defaults.",
    ),
]
Topics = Annotated[
    str | None, typer.Option("--topics", metavar="REGEX,REGEX", help="Topics to mirror.  [default: .*]")
]
Groups = Annotated[
    str | None,
    typer.Option("--groups", metavar="REGEX,REGEX", help="Consumer groups to translate.  [default: .*]"),
]
TopicNames = Annotated[
    str | None,
    typer.Option(
        "--topic-names",
        metavar="prefixed|same",
        help="Topic names on the target: prefixed with the source's alias (east.orders), or the same as on the source."
        "  [default: prefixed]",
    ),
]


def _side(side: str, name: str, metavar: str, what: str, *short: str) -> Any:
    option = f"--{side}-{name}" if name else f"--{side}"
    return typer.Option(*short, option, metavar=metavar, help=what, rich_help_panel=f"The {side} cluster")


_SOURCE_ALIAS = (
    "Alias that the file gives the cluster, for example east; unless --topic-names is same, the cluster's topics are"
    " named ALIAS.TOPIC on the target."
)
_TARGET_ALIAS = "Alias that the file gives the cluster, for example west."
_SERVERS = "Bootstrap servers."
_PROTOCOL = "Security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.  [default: PLAINTEXT]"
_MECHANISM = (
    "With SASL_PLAINTEXT or SASL_SSL: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER or AWS_MSK_IAM."
    "  [default: SCRAM-SHA-512]"
)
_USER = "With a mechanism other than AWS_MSK_IAM: user name; with OAUTHBEARER, client id."
_PLACES = "env:NAME, file:PATH:KEY or directory:PATH:FILE"
_FROM = (
    f"Where the password (OAUTHBEARER: client secret) is: {_PLACES}; never the password itself."
    "  [default: env:ALIAS_PASSWORD]"
)
_ENDPOINT = "With OAUTHBEARER: the token endpoint's URL."
_TRUST = "With SSL or SASL_SSL: JKS, PKCS12 or PEM file with trusted certificates. Default: the system's."
_TRUST_FROM = (
    f"With a JKS or PKCS12 trust store: where its password is ({_PLACES})."
    "  [default: env:ALIAS_TRUSTSTORE_PASSWORD]"
)
_KEYS = "With SSL, not SASL_SSL: JKS, PKCS12 or PEM file with mmtool's key and certificate."
_KEYS_FROM = (
    f"With a JKS or PKCS12 key store: where its password is ({_PLACES})."
    "  [default: env:ALIAS_KEYSTORE_PASSWORD]"
)

Source = Annotated[str | None, _side("source", "", "ALIAS", _SOURCE_ALIAS, "-s")]
SourceServers = Annotated[str | None, _side("source", "servers", "HOST:PORT,...", _SERVERS)]
SourceProtocol = Annotated[str | None, _side("source", "protocol", "WORD", _PROTOCOL)]
SourceMechanism = Annotated[str | None, _side("source", "mechanism", "WORD", _MECHANISM)]
SourceUser = Annotated[str | None, _side("source", "user", "NAME", _USER)]
SourcePasswordFrom = Annotated[str | None, _side("source", "password-from", "PLACE", _FROM)]
SourceTokenEndpoint = Annotated[str | None, _side("source", "token-endpoint", "URL", _ENDPOINT)]
SourceTruststore = Annotated[str | None, _side("source", "truststore", "FILE", _TRUST)]
SourceTruststorePasswordFrom = Annotated[
    str | None, _side("source", "truststore-password-from", "PLACE", _TRUST_FROM)
]
SourceKeystore = Annotated[str | None, _side("source", "keystore", "FILE", _KEYS)]
SourceKeystorePasswordFrom = Annotated[
    str | None, _side("source", "keystore-password-from", "PLACE", _KEYS_FROM)
]
Target = Annotated[str | None, _side("target", "", "ALIAS", _TARGET_ALIAS, "-t")]
TargetServers = Annotated[str | None, _side("target", "servers", "HOST:PORT,...", _SERVERS)]
TargetProtocol = Annotated[str | None, _side("target", "protocol", "WORD", _PROTOCOL)]
TargetMechanism = Annotated[str | None, _side("target", "mechanism", "WORD", _MECHANISM)]
TargetUser = Annotated[str | None, _side("target", "user", "NAME", _USER)]
TargetPasswordFrom = Annotated[str | None, _side("target", "password-from", "PLACE", _FROM)]
TargetTokenEndpoint = Annotated[str | None, _side("target", "token-endpoint", "URL", _ENDPOINT)]
TargetTruststore = Annotated[str | None, _side("target", "truststore", "FILE", _TRUST)]
TargetTruststorePasswordFrom = Annotated[
    str | None, _side("target", "truststore-password-from", "PLACE", _TRUST_FROM)
]
TargetKeystore = Annotated[str | None, _side("target", "keystore", "FILE", _KEYS)]
TargetKeystorePasswordFrom = Annotated[
    str | None, _side("target", "keystore-password-from", "PLACE", _KEYS_FROM)
]
