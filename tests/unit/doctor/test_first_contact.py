"""What a cluster answers first: it lets mmtool in, refuses the login, or is away."""

from types import SimpleNamespace

import pytest

from mmtool.config.credentials import Security
from mmtool.doctor.checks import examine
from mmtool.doctor.entrances import contact
from mmtool.doctor.examination import ExaminedCluster
from mmtool.kafka.admin.listeners import Entrance, ListenerAnswer, Stage


@pytest.mark.parametrize(
    ("stage", "code"),
    [
        (Stage.LOGIN, "not_authorised"),
        (Stage.MECHANISM, "not_authorised"),
        (Stage.CLIENT_CERTIFICATE, "not_authorised"),
        (Stage.CONNECT, "unreachable"),
        (Stage.TLS, "unreachable"),
    ],
)
def test_a_refused_login_is_no_unreachable_cluster_and_both_are_a_problem(stage, code):
    refused = ListenerAnswer(Entrance("A", ("one:9092",), Security()), "one:9092", None, stage, "why")
    details = SimpleNamespace(listeners=lambda: [refused], principal="User:mm")
    settings = SimpleNamespace(
        alias="A", security_for=lambda _: Security(), security=Security(), role_security={}
    )
    cluster = ExaminedCluster(settings, port=None, details=details, settings_of_file=None)
    assert contact([cluster])["A"].code == code
    rows = [row for row in examine([cluster], []).findings if row.check == "reachability"]
    assert [(row.severity, row.cluster) for row in rows] == [("problem", "A")]
