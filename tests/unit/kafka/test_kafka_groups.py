"""What becomes of a broker's answer about groups."""

from __future__ import annotations

import pytest

from mmtool.errors import ConfigError, NotAuthorisedError, RefusedError, UnreachableError
from mmtool.kafka.patience import NotNowError
from mmtool.kafka.wire.codes import Code
from mmtool.testing.lookups import groups_of


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (24, ConfigError),  # INVALID_GROUP_ID
        (Code.GROUP_AUTHORIZATION_FAILED, NotAuthorisedError),
        (47, RefusedError),  # INVALID_PRODUCER_EPOCH
    ],
)
def test_an_answer_about_a_group_is_an_error_of_its_kind(code, error):
    with pytest.raises(error, match="describing group g"):
        groups_of("nowhere:1")._check(code, "describing group g")


def test_a_coordinator_that_has_moved_is_asked_again():
    with pytest.raises(NotNowError) as passing:
        groups_of("nowhere:1")._check(Code.NOT_COORDINATOR, "describing group g")
    assert isinstance(passing.value.final, UnreachableError)
