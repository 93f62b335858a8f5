"""Topics that `topics` names and the source does not show: they may be denied, or not exist."""

import asyncio
from types import SimpleNamespace

import pytest

from mmtool.errors import NotAuthorisedError
from mmtool.kafka.wire.codes import Code
from mmtool.replication.ownership.checks import _check_shown


def warned(*names, refreshes=True, others=("payments",)):
    """The warnings about a flow that names topics which the source hides, beside others that it shows."""

    async def refresh(asked):
        codes = {name: Code.TOPIC_AUTHORIZATION_FAILED if name in names else Code.NONE for name in asked}
        return {name: SimpleNamespace(error_code=code) for name, code in codes.items()}

    literal = frozenset((*names, *others))
    flow = SimpleNamespace(
        identity=SimpleNamespace(name="east->west"),
        source=SimpleNamespace(alias="east", refresh=refresh),
        settings=SimpleNamespace(
            literal_topics=literal, topics=SimpleNamespace(include=tuple(literal)), refresh_topics=refreshes
        ),
    )
    warnings = []
    asyncio.run(_check_shown(flow, warnings))
    return warnings


@pytest.mark.parametrize(
    ("names", "refreshes", "said"),
    [
        (("orders",), True, "topic orders does not exist on cluster east, or READ on it is denied"),
        (
            ("audit", "orders"),
            False,
            "topics audit, orders do not exist on cluster east, or READ on them is denied",
        ),
    ],
)
def test_hidden_topics_are_named_with_both_causes(names, refreshes, said):
    (warning,) = warned(*names, refreshes=refreshes)
    assert warning.startswith(f"east->west: {said}, so mmtool does not mirror ")
    assert ("stop and start `mmtool replicate`" in warning) is not refreshes


def test_a_flow_of_hidden_topics_alone_is_refused():
    with pytest.raises(
        NotAuthorisedError, match="topic orders does not exist on cluster east, or READ on it"
    ):
        warned("orders", others=())
