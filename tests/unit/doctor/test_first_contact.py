"""What a cluster answers first: it lets mmtool in, refuses the login, or is away."""

from types import SimpleNamespace

import pytest

from mmtool.config.credentials import Security
from mmtool.doctor.examination import ExaminedCluster, ask_each, examine
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
    details, settings = SimpleNamespace(listeners=lambda: [refused]), SimpleNamespace(alias="A")
    cluster = ExaminedCluster(settings, port=None, details=details, seconds=1, settings_of_file=None)
    assert ask_each([cluster])["A"].code == code
    (row,) = examine([cluster], [], (), ()).findings
    assert (row.check, row.severity, row.cluster) == ("reachability", "problem", "A")
