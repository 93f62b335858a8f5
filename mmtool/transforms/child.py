"""The child process that runs a flow's function: it reads batches of records from its parent, and answers with others.

A function that hangs or ends its process takes no copier with it. What the function prints is discarded: it may be
content of records. The process ends with its parent, even while the function hangs.
"""

from __future__ import annotations

import gc
import importlib
import os
import pickle
import re
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from mmtool.kafka.batches import BatchError, BatchView, iter_batches
from mmtool.plan.flow.transforms import READY_MADE, Step
from mmtool.transforms import ready_made
from mmtool.transforms.columns import (
    Rows,
    WrongRowsError,
    after_steps,
    from_arrow,
    rows_of,
    to_arrow,
    views_with,
)
from mmtool.transforms.json_paths import NotJsonError

_LENGTHS = struct.Struct(">QQ")
_LOOK_SECONDS = 1.0
_COLLECTED = (50_000, 20, 20)
"""How often Python looks for cycles: the records of a batch are thousands of objects that have none."""
_ON_ERROR = "correct the producer; or leave such records out or copy them with mmtool.transform.on.error = drop or copy"
_LIBRARIES = re.compile(r"importlib|zipimport|\.p[xy][xi]$|/pyarrow/")
"""Files whose frames say nothing about a user's function."""


class Start(NamedTuple):
    """The first message to the child.

    Attributes:
        path: Where it looks for modules.
        function: ``module:name``; empty without a function.
        settings: Of the function.
        is_trial: Run the function once with an empty batch.
    """

    path: list[str]
    function: str
    settings: Mapping[str, str]
    is_trial: bool = False


class Work(NamedTuple):
    """Of batches of one partition the records from ``start`` up to ``stop`` are changed, all others are left out."""

    topic: str
    partition: int
    steps: Sequence[Step]
    start: int
    stop: int


class Failure(NamedTuple):
    """Why a function gave no answer: no text of an exception, which may quote a record.

    Attributes:
        offset: Of the first record that it did not change; None where that is no record's fault.
        why: A sentence without its subject: "raised KeyError at masks.py:12".
        frames: Of the exception, from the function on, as ``file:line in name``.
        cure: What to do, where that is not to correct the function.
        at_start: It could not be made: no record has to do with it.
    """

    offset: int | None
    why: str
    frames: tuple[str, ...] = ()
    cure: str = ""
    at_start: bool = False


class Made(NamedTuple):
    """The answer to `Start`, and to `Work`: behind it are the same batches with the records that are left.

    Attributes:
        failure: Why there are none from a record on.
        unreadable: Values that were no JSON, and were copied or left out.
        is_same: No record was changed or left out: there are no batches.
    """

    failure: Failure | None = None
    unreadable: int = 0
    is_same: bool = False


def send(stream: BinaryIO, message: object, batches: Iterable[memoryview] = ()) -> None:
    """Write one message, and batches behind it as they are."""
    content, parts = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL), list(batches)
    stream.write(_LENGTHS.pack(len(content), sum(map(len, parts))))
    stream.write(content)
    stream.writelines(parts)
    stream.flush()


def receive(stream: BinaryIO) -> tuple[Any, memoryview]:
    """Read one message, and the batches behind it.

    Raises:
        EOFError: The other process has ended.
    """
    head = stream.read(_LENGTHS.size)
    if len(head) < _LENGTHS.size:
        raise EOFError
    length, size = _LENGTHS.unpack(head)
    content, batches = stream.read(length), bytearray(size)
    if len(content) < length or stream.readinto(batches) < size:  # type: ignore[attr-defined]  # of a buffered pipe
        raise EOFError
    return pickle.loads(content), memoryview(batches)  # noqa: S301  from our own process


def main() -> None:
    """Serve the parent until it closes the pipe."""
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.freeze()
    gc.set_threshold(*_COLLECTED)
    try:
        start, _ = receive(sys.stdin.buffer)
        sys.path[:] = start.path
        function, failure = _function_of(start)
        send(answers, Made(failure))
        while True:
            made, batches = _made(function, *receive(sys.stdin.buffer))
            send(answers, made, batches)
    except (EOFError, BrokenPipeError):
        pass


def _end_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


def _function_of(start: Start) -> tuple[Callable[..., Any] | None, Failure | None]:
    """The function, or why there is none; the text of an exception only where no secret and no record is in it."""
    if not start.function:
        return None, None
    module, _, name = start.function.partition(":")
    shows_text, at_start = True, True
    try:
        function = getattr(importlib.import_module(module), name, None)
        if function is None:
            return None, Failure(None, f"is missing: module {module} has no {name}", at_start=True)
        shows_text = start.function.startswith(READY_MADE)
        if start.settings or shows_text:
            function = function(start.settings)
        at_start = False
        if start.is_trial:
            _run(function, rows_of([], 0, 0), "", 0)
    except WrongRowsError as error:
        return None, Failure(None, error.message)
    except Exception as error:  # noqa: BLE001  whatever a user's module raises
        is_said = shows_text and at_start and isinstance(error, (ImportError, ValueError))
        why = f"raised {_described(error)}{f': {error}' if is_said else ''}"
        return None, Failure(None, why, _frames(error), at_start=at_start)
    return function, None


def _made(
    function: Callable[..., Any] | None, work: Work, batches: memoryview
) -> tuple[Made, Sequence[memoryview]]:
    views = list(iter_batches(batches))
    try:
        given = rows_of(views, work.start, work.stop)
        before, is_whole = list(given.columns.bodies), len(given) == sum(v.header.record_count for v in views)
        rows = after_steps(given, work.steps)
    except BatchError as error:
        return Made(Failure(work.start, f"got a batch that cannot be read: {error.message}")), ()
    failure = None
    if function is not None:
        ready_made.UNREADABLE.count = 0
        try:
            rows = _run(function, rows, work.topic, work.partition)
        except Exception as error:  # noqa: BLE001  whatever a user's function raises
            if isinstance(error, WrongRowsError):
                good, failure = 0, Failure(rows.columns.offsets[0], error.message)
            else:
                good = _first_bad(function, rows, work)
                offset, why = rows.columns.offsets[good], f"raised {_described(error)}"
                failure = Failure(offset, why, _frames(error))
                if isinstance(error, NotJsonError):
                    failure = Failure(offset, "found a value that is no JSON", cure=_ON_ERROR)
            ready_made.UNREADABLE.count = 0
            rows = _run(function, _first(rows, good), work.topic, work.partition) if good else _first(rows, 0)
    if failure is not None:
        views = _below(views, work.start if failure.offset is None else failure.offset)
    unreadable = ready_made.UNREADABLE.count if function is not None else 0
    if failure is None and is_whole and rows.columns.bodies == before:
        return Made(None, unreadable, is_same=True), ()
    return Made(failure, unreadable), [view.memory for view in views_with(views, rows)]


def _below(views: Sequence[BatchView], stop: int) -> list[BatchView]:
    """The batches below an offset; the one around it ends there."""
    found = [view for view in views if view.header.base_offset < stop]
    if found and found[-1].header.next_offset > stop:
        header = found[-1].header
        cut = header._replace(last_offset_delta=stop - 1 - header.base_offset)
        found[-1] = found[-1]._replace(header=cut)
    return found


def _run(function: Callable[..., Any], rows: Rows, topic: str, partition: int) -> Rows:
    import pyarrow as pa

    if not len(rows) and topic:
        return rows
    given = to_arrow(rows, topic, partition)
    made = list(function(iter([given])))
    for batch in made:
        if not isinstance(batch, pa.RecordBatch):
            raise WrongRowsError(f"returned {type(batch).__name__} instead of pyarrow.RecordBatch")
    return from_arrow(rows, given, made)


def _first(rows: Rows, count: int) -> Rows:
    return rows.kept([number < count for number in range(len(rows))])


def _first_bad(function: Callable[..., Any], rows: Rows, work: Work) -> int:
    """How many records from the first on the function takes: a prefix that fails holds a record that it does not."""
    good, bad = 0, len(rows)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _run(function, _first(rows, middle), work.topic, work.partition)
            good = middle
        except Exception:  # noqa: BLE001  whatever a user's function raises
            bad = middle
    return good


def _described(error: Exception) -> str:
    """The exception's type, and where the function raised it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"SyntaxError at {os.path.basename(error.filename)}:{error.lineno}"  # noqa: PTH119  as below
    frames = _frames(error)
    if not frames and isinstance(error, TypeError):
        return "TypeError: it has to take an iterator of batches and return one, or with settings make such a function"
    return f"{type(error).__name__}{f' at {frames[-1]}' if frames else ''}"


def _frames(error: Exception) -> tuple[str, ...]:
    """Where the exception was raised, without this module's own frames."""
    frames = traceback.extract_tb(error.__traceback__)
    return tuple(
        f"{os.path.basename(frame.filename)}:{frame.lineno} in {frame.name}"  # noqa: PTH119  a zip has no Path
        for frame in frames
        if frame.filename != __file__ and not _LIBRARIES.search(frame.filename)
    )
