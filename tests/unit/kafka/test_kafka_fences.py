"""Who mmtool is for a cluster's authorizer, as far as the configuration tells."""

import pytest

from mmtool.config import ClusterSettings
from mmtool.config.settings import Pem, Sasl, Security
from mmtool.kafka.fences import KafkaFences, own_principals
from mmtool.testing.fences import PASSWORD

PLAIN = Security(protocol="SASL_SSL", sasl=Sasl(mechanism="SCRAM-SHA-512", username="mm", password=PASSWORD))
CERTIFICATE = Security(protocol="SSL", certificate=Pem(origin="me.pem", text="-"))


@pytest.mark.parametrize(
    ("security", "roles", "own"),
    [
        (PLAIN, {}, ({"User:mm"}, True)),
        (Security(), {}, ({"User:ANONYMOUS"}, True)),
        (Security(protocol="SSL"), {}, ({"User:ANONYMOUS"}, True)),
        (CERTIFICATE, {}, (set(), False)),
        (PLAIN.model_copy(update={"certificate": CERTIFICATE.certificate}), {}, ({"User:mm"}, True)),
        (PLAIN, {"admin": CERTIFICATE}, ({"User:mm"}, False)),
        (Security(), {"consumer": PLAIN}, ({"User:ANONYMOUS", "User:mm"}, True)),
    ],
    ids=[
        "sasl",
        "plaintext",
        "tls",
        "certificate",
        "sasl over mutual tls",
        "an admin's own",
        "a consumer's own",
    ],
)
def test_who_mmtool_is_follows_from_how_it_connects(security, roles, own):
    settings = ClusterSettings(alias="east", bootstrap_servers="h:1", security=security, role_security=roles)
    assert own_principals(settings) == own


def test_a_cluster_is_called_by_its_alias():
    assert KafkaFences(ClusterSettings(alias="east", bootstrap_servers="h:1"), 1.0).alias == "east"
