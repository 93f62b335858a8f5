"""What Spark may be told, and what not."""

from __future__ import annotations

import pytest

from mmtool.errors import UsageError
from mmtool.replication.spark_rounds import open_rounds


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_two_attempts_of_one_task_are_refused_before_spark_is_started(value):
    """They would fence each other for ever."""
    with pytest.raises(UsageError, match=r"spark\.speculation"):
        open_rounds("local[1]", {"spark.speculation": value})
