"""A function in its child process gets records as columns; what it may not do halts its partition, and nothing else."""

import asyncio
import os
import signal
import textwrap
import time

import pytest

from kit.batches import PlainBatch, PlainRecord
from mmtool.kafka.batches import decode, iter_batches
from mmtool.kafka.batches.checksum import verify_crc
from mmtool.plan.flow.transforms import Condition, On, Step, TransformSpec
from mmtool.transforms import process as processes
from mmtool.transforms.process import TransformProcess
from mmtool.translation.types import TopicPartition

PLACE = TopicPartition("orders", 3)


def view(*records, base=0, last=None, codec="lz4"):
    last = records[-1].offset if last is None else last
    plain = PlainBatch(base, last, records, codec=codec)
    (found,) = iter_batches(plain.write())
    return found


def records(count, base=0):
    return [
        PlainRecord(base + n, 1_000 + n, b"k%d" % n, b'{"n":%d}' % n, ((b"h", b"x"),)) for n in range(count)
    ]


@pytest.fixture
def apply():
    """Applies a transform to batches; the process ends with the test."""

    def run(spec, *views, start=0, stop=1 << 40):
        async def once():
            process = TransformProcess()
            try:
                return await process.apply(spec, PLACE, views, start, stop)
            finally:
                await process.close()

        return asyncio.run(once())

    return run


@pytest.fixture
def spec(tmp_path, monkeypatch):
    """A transform whose function is the body of ``masks:change``."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def made(body, **settings):
        (tmp_path / "masks.py").write_text("import pyarrow as pa\n" + textwrap.dedent(body))
        return TransformSpec(f"masks:change@{time.monotonic_ns()}", (), "masks:change", settings)

    return made


IDENTITY = "def change(batches):\n    yield from batches\n"
UPPER = """
def change(batches):
    for batch in batches:
        values = pa.array([value.as_py().upper() for value in batch["value"]], pa.binary())
        yield batch.set_column(5, batch.schema.field(5), values)
"""
EVEN = """
def change(batches):
    for batch in batches:
        yield batch.filter(pa.array([offset.as_py() % 2 == 0 for offset in batch["offset"]]))
"""


def test_a_function_that_changes_nothing_leaves_every_byte(spec, apply):
    one = view(*records(5))
    made = apply(spec(IDENTITY), one)
    assert [bytes(v.memory) for v in made.views] == [bytes(one.memory)]


def test_it_changes_values_and_keeps_everything_else(spec, apply):
    first, second = view(*records(3)), view(*records(2, base=10), base=10, last=14)
    made = apply(spec(UPPER), first, second)
    assert made.failed is None
    assert [v.header.next_offset for v in made.views] == [3, 15]
    for before, after in zip((first, second), made.views, strict=True):
        verify_crc(after)
        assert after.header.codec == before.header.codec
        assert [r._replace(value=r.value.upper()) for r in decode(before)] == list(decode(after))


def test_what_it_leaves_out_is_a_hole(spec, apply):
    made = apply(spec(EVEN), view(*records(5)), view(*records(1, base=5), base=5))
    assert [[r.offset for r in decode(v)] for v in made.views] == [[0, 2, 4], []]
    assert [v.header.next_offset for v in made.views] == [5, 6]


def test_it_gets_only_the_records_of_the_range(spec, apply):
    made = apply(spec(UPPER), view(*records(6)), start=2, stop=4)
    assert [r.offset for r in decode(made.views[0])] == [2, 3]


@pytest.mark.parametrize(
    ("made", "why"),
    [
        ("one.select(['key'])", "with other names or types"),
        ("one.append_column('size', one['partition'])", "the column size, which records do not have"),
        ("one.append_column('key', one['key'])", "a column twice"),
        ("pa.RecordBatch.from_pylist(one.to_pylist() * 2, one.schema)", "rows may only be left out"),
        ("one.take(pa.array(range(one.num_rows - 1, -1, -1)))", "another order"),
        (
            "one.set_column(1, one.schema.field(1), pa.array([9] * 4, pa.int32()))",
            "changed the column partition",
        ),
        ("one.to_pylist()", "returned list instead of pyarrow.RecordBatch"),
        ("one.no_such_method()", "raised AttributeError"),
        ("__import__('os')._exit(3)", "ended its process"),
    ],
)
def test_what_it_may_not_do_is_said_with_its_name_topic_and_offset(spec, apply, made, why):
    made = apply(
        spec(f"def change(batches):\n    for one in batches:\n        yield {made}\n"), view(*records(4))
    )
    assert made.views == []
    assert why in made.failed
    assert made.failed.startswith("masks:change ")


def test_an_exception_is_said_with_the_record_and_without_a_word_of_it(spec, apply):
    body = """
    def change(batches):
        for batch in batches:
            for value in batch["value"]:
                if b"7" in value.as_py():
                    raise KeyError(value.as_py())
            yield batch
    """
    made = apply(spec(body), view(*records(12)), view(*records(3, base=12), base=12))
    assert [[r.offset for r in decode(v)] for v in made.views] == [list(range(7))]
    assert made.views[-1].header.next_offset == 7
    assert "masks:change raised KeyError at masks.py:" in made.failed
    assert "orders-3 at source offset 7" in made.failed
    assert '"n":7' not in made.failed


def test_a_function_that_takes_too_long_is_ended_and_the_next_request_runs(spec, monkeypatch):
    monkeypatch.setattr(processes, "MOST_SECONDS", 3.0)
    body = """
    import time
    def change(batches):
        for batch in batches:
            if batch.num_rows == 4:
                time.sleep(1000)
            yield batch
    """
    slow = spec(body)

    async def run():
        process = TransformProcess()
        late = await process.apply(slow, PLACE, [view(*records(4))])
        after = await process.apply(slow, PLACE, [view(*records(3))])
        child = process._process.pid
        await process.close()
        return late, after, child

    late, after, child = asyncio.run(run())
    assert "took longer than 3 s for the records of orders-3 from source offset 0 on" in late.failed
    assert after.failed is None
    with pytest.raises(ProcessLookupError):
        os.kill(child, signal.SIG_DFL)


def test_a_module_that_cannot_be_imported_is_named(apply):
    made = apply(TransformSpec("none@1", (), "no_such_module:f"), view(*records(1)))
    assert "no_such_module" in made.failed
    assert made.views == []


TOMBSTONE = Condition(On.TOMBSTONE)


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ([Step(None, TOMBSTONE)], [0, 2]),
        ([Step(None, TOMBSTONE._replace(negated=True))], [1]),
        ([Step(None, Condition(On.HEADER, "h"))], [2]),
        ([Step(None)], []),
        ([Step(("h",)), Step(None, Condition(On.HEADER, "h"))], [0, 1, 2]),
    ],
)
def test_steps_of_kafka_connect_run_in_their_order(apply, steps, left):
    given = [PlainRecord(0, 1, b"k", b"v", ((b"h", b"1"), (b"g", None), (b"h", b"2"))),
             PlainRecord(1, 1, b"k", None, ((b"h", None),)), PlainRecord(2, 1, None, b"")]  # fmt: skip
    made = apply(TransformSpec("transforms@1", tuple(steps)), view(*given))
    assert [r.offset for r in decode(made.views[0])] == left


def test_dropped_headers_go_each_time_and_the_others_stay(apply):
    given = PlainRecord(0, 1, b"k", b"v", ((b"h", b"1"), (b"g", None), (b"h", b"2"), (b"\xff", b"3")))
    made = apply(TransformSpec("transforms@1", (Step(("h",)),)), view(given))
    (record,) = decode(made.views[0])
    assert record.headers == ((b"g", None), (b"\xff", b"3"))
