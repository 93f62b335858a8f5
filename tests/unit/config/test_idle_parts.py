"""A cluster or flow that is not enabled stops nobody: its faults are warnings until somebody asks for it."""

import pytest

from mmtool.errors import ConfigError

HEAD = """\
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""
THERE = HEAD + "C.bootstrap.servers = c:1\n"

FAULTS = [
    pytest.param(THERE, "C.security.protocol = SASL_SSL\nC.sasl.mechanism = NTLM\n", "NTLM", id="mechanism"),
    pytest.param(THERE, "C.security.protocol = TLS\n", "TLS", id="protocol"),
    pytest.param(THERE, "C->B.topics = ([\n", "([", id="regular expression"),
    pytest.param(THERE, "C->B.refresh.topics.interval.seconds = soon\n", "soon", id="number"),
    pytest.param(THERE, "C->B.emit.heartbeats.enabled = perhaps\n", "perhaps", id="boolean"),
    pytest.param(THERE, "C->B.transforms = mask\n", "transform", id="transformation"),
    pytest.param(THERE, "C.sasl.password = ${env:NOWHERE}\n", "NOWHERE", id="placeholder"),
    pytest.param(THERE, "C.ssl.ca.location = $HOME/ca.pem\n", "not substituted", id="shell variable"),
    pytest.param(THERE, "C->B.mmtool.hook.nothing = /bin/true\n", "no step that a hook can follow", id="hook"),
    pytest.param(THERE, "C.security.protocol = SSL\nC.ssl.ca.location = /nowhere/ca.pem\n", "/nowhere", id="file"),
    pytest.param(HEAD, "C.bootstrap.servers = c\n", "no port", id="server"),
    pytest.param(HEAD, "", "C.bootstrap.servers", id="no server"),
]  # fmt: skip


@pytest.mark.parametrize(("head", "lines", "says"), FAULTS)
def test_a_fault_of_a_flow_that_is_not_enabled_is_a_warning(head, lines, says, load):
    settings = load(lines, head=head)
    assert [flow.name for flow in settings.flows] == ["A->B"]
    assert any(
        says in warning and "no enabled flow uses this setting" in warning for warning in settings.warnings
    )
    assert settings.one("A", "B").name == "A->B"


@pytest.mark.parametrize(("head", "lines", "says"), FAULTS)
def test_the_same_fault_is_an_error_once_the_flow_is_asked_for(head, lines, says, load):
    settings = load(lines, head=head)
    with pytest.raises(ConfigError) as refused:
        settings.select("C", "B")
    assert says in refused.value.message


@pytest.mark.parametrize(("head", "lines", "says"), FAULTS)
def test_the_same_fault_is_an_error_in_an_enabled_flow(head, lines, says, load):
    with pytest.raises(ConfigError) as refused:
        load(lines, head=head + "C->B.enabled = true\n")
    assert says in refused.value.message
    assert "no enabled flow" not in refused.value.message


@pytest.mark.parametrize(("head", "lines", "says"), FAULTS)
def test_no_heartbeats_are_written_for_a_pair_that_cannot_be_used(head, lines, says, load):
    assert "C->B" not in [pair.name for pair in load(lines, head=head).heartbeats_only]


def test_a_fault_of_the_whole_file_stays_an_error(load):
    with pytest.raises(ConfigError, match=r"topics = \(\[: expected Java"):
        load("topics = ([\n", head=THERE)


def test_a_global_fault_that_the_enabled_flow_overrides_is_a_warning(load):
    settings = load("topics = ([\nA->B.topics = orders\n", head=THERE)
    assert settings.flows[0].topics.include == ("orders",)
    with pytest.raises(ConfigError):
        settings.one("B", "A")


def test_a_way_back_that_cannot_be_used_has_no_heartbeats_and_that_is_said(load):
    settings = load("B->A.topics = ([\n", head=THERE)
    assert "B->A" not in [pair.name for pair in settings.heartbeats_only]
    (said,) = [warning for warning in settings.warnings if "B->A: no heartbeats are written" in warning]
    assert said.endswith(f"`mmtool config check -c {settings.path} -s B -t A` lists them")
