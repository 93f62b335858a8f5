"""A pandas UDF that translates offsets in a user's own Spark job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, SparkSession

    from mmtool.translation.columns import MaskedOffsets
    from mmtool.translation.offset_map import OffsetMap
    from mmtool.translation.runs import Offsets

RETURNS: Final = "downstream_offset bigint, exactness string, reread_max bigint, reason string"
"""The schema of an answer, as Spark SQL writes it."""


def translate_offsets_udf(spark: SparkSession, offset_map: OffsetMap) -> Callable[..., Column]:
    """Make a pandas UDF that translates columns of offsets by a map.

    The map is broadcast, so each executor gets it once; Spark Connect cannot broadcast, and sends it with each query.
    Executors need mmtool, pandas and pyarrow, and no connection to Kafka.

    Args:
        spark: The session in which the UDF is used.
        offset_map: From `load_offset_map`.

    Returns:
        A UDF of three columns: topic (``string``), partition (``int`` or ``bigint``) and offset (``bigint``), the next
        offset to read on the source. Its value is a struct of the fields ``downstream_offset`` (``bigint``, null if
        refused), ``exactness`` (``string``: exact, bounded, refused), ``reread_max`` (``bigint``, records; null if
        refused) and ``reason`` (``string``, null if not refused). The struct is never null: a row with a null topic,
        partition or offset is refused as ``no_commit``.

    Raises:
        ImportError: pandas or pyarrow is missing.
    """
    import pandas as pd
    from pyspark.sql.functions import pandas_udf

    shared = _shared(spark, offset_map)

    def translate_offsets(topic: Any, partition: Any, offset: Any) -> Any:
        return translated_frame(shared(), topic, partition, offset)

    translate_offsets.__annotations__ = {
        "topic": pd.Series, "partition": pd.Series, "offset": pd.Series, "return": pd.DataFrame
    }  # fmt: skip  # Spark tells kinds of UDFs apart by their types
    udf: Callable[..., Column] = pandas_udf(translate_offsets, RETURNS)
    return udf


def _shared(spark: SparkSession, offset_map: OffsetMap) -> Callable[[], OffsetMap]:
    """What gives the map in an executor."""
    from pyspark.sql import is_remote

    if is_remote():
        return lambda: offset_map
    broadcast = spark.sparkContext.broadcast(offset_map)
    return lambda: cast("OffsetMap", broadcast.value)


def translated_frame(offset_map: OffsetMap, topic: Any, partition: Any, offset: Any) -> Any:
    """Translate one batch: pandas Series of topics, partitions and offsets in, a DataFrame of `RETURNS` out.

    Raises:
        ValueError: Partitions or offsets are not integers.
    """
    import numpy as np
    import pandas as pd

    is_null = (topic.isna() | partition.isna() | offset.isna()).to_numpy(np.bool_)
    commits = np.ma.masked_array(_integers("offset", offset), is_null)
    answers = offset_map.translate_many(topic.to_numpy(object), _integers("partition", partition), commits)
    return pd.DataFrame(
        {
            "downstream_offset": _nullable(answers.downstream_offset),
            "exactness": answers.exactness,
            "reread_max": _nullable(answers.reread_max),
            "reason": answers.reason,
        }
    )


def _integers(name: str, column: Any) -> Offsets:
    """A Series as int64, with any number where it is null."""
    import numpy as np

    # with nulls it comes as float64, which is exact below 2**53: 285 years at a million records a second
    values = column.fillna(0).to_numpy()
    numbers: Offsets = values.astype(np.int64)
    wrong = numbers != values
    if wrong.any():
        raise ValueError(
            f"translate_offsets: column {name} must hold whole numbers, and holds {values[wrong][0]}"
        )
    return numbers


def _nullable(column: MaskedOffsets) -> Any:
    import numpy as np
    import pandas as pd

    return pd.arrays.IntegerArray(column.data, np.ma.getmaskarray(column))
