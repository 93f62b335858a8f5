"""What Spark may be told, and what not."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from mmtool.errors import UsageError
from mmtool.replication.spark_rounds import keep_talk_aside, open_rounds


@pytest.mark.parametrize("value", ["true", "TRUE"])
def test_two_attempts_of_one_task_are_refused_before_spark_is_started(value):
    """They would fence each other for ever."""
    with pytest.raises(UsageError, match=r"spark\.speculation"):
        open_rounds("local[1]", {"spark.speculation": value})


_LOST = """
import logging
from mmtool.replication.spark_rounds import keep_talk_aside, spark_log
keep_talk_aside()
try:
    raise ConnectionError("the JVM is gone")
except ConnectionError:
    logging.exception("Exception while sending command.")  # as py4j does
print(spark_log().read_text())
spark_log().unlink()
"""


def test_what_py4j_says_of_a_lost_jvm_is_in_spark_s_log_and_not_on_the_screen():
    ran = subprocess.run([sys.executable, "-c", _LOST], capture_output=True, text=True, check=True)
    assert (ran.stderr, "ConnectionError: the JVM is gone" in ran.stdout) == ("", True)


def test_a_program_that_has_a_place_for_what_libraries_log_keeps_it():
    before = list(logging.getLogger().handlers)
    assert before, "pytest's own"
    keep_talk_aside()
    assert logging.getLogger().handlers == before
