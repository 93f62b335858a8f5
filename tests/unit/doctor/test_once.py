"""A question that checks have in common is asked once, whatever the answer is."""

import pytest

from mmtool.doctor.once import Once
from mmtool.errors import UnreachableError


def test_an_answer_serves_every_caller():
    asked = []
    once = Once(lambda: asked.append(1) or "answer")
    assert (once(), once(), asked) == ("answer", "answer", [1])


def test_an_error_serves_every_caller_too():
    asked = []

    def away():
        asked.append(1)
        raise UnreachableError("cluster A does not answer")

    once = Once(away)
    for _ in range(3):
        with pytest.raises(UnreachableError):
            once()
    assert asked == [1]
