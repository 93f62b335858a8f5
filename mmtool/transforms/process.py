"""The parent's side of a function's child process: started when it is needed, and ended when it takes too long."""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeAlias, cast

from mmtool.kafka.batches import BatchView, iter_batches
from mmtool.plan.flow.transforms import TransformSpec
from mmtool.plan.topics.facts import HaltReason
from mmtool.runtime.files import cache_root, write_whole
from mmtool.runtime.threads import in_thread, within
from mmtool.transforms.child import Failure, Made, Start, Work, receive, send
from mmtool.translation.types import TopicPartition

MOST_SECONDS = 60.0
"""The longest that a function may take for the records of one fetch, or to start."""

_Answer: TypeAlias = tuple[Made, memoryview]
"""The child's message, and the batches behind it."""
_NOTHING = memoryview(b"")
_ENDED = Failure(None, "ended its process")
_PIPE_BYTES = 1 << 20
"""Of a pipe to the child: a message of the default 64 KiB would change processes many times for each fetch."""
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(256 << 20), "MALLOC_TRIM_THRESHOLD_": str(256 << 20)}
"""glibc: megabytes that come and go with each batch stay in the process, and are not made of new pages each time."""
_TO_THE_END = (1 << 63) - 1


class Transformed(NamedTuple):
    """Batches with other records.

    Attributes:
        views: The batches, up to the first record that could not be changed, where the last one then ends.
        failed: Why one could not be changed; None where all were.
        unreadable: Values that were no JSON, and were copied or left out.
        is_same: No record was changed or left out.
    """

    views: list[BatchView]
    failed: HaltReason | None = None
    unreadable: int = 0
    is_same: bool = False


class TransformProcess:
    """Runs the transforms of a flow's topics, one request at a time.

    A. A function that takes longer than `MOST_SECONDS` is ended with its process; the next request starts another one.
    B. What is said of a failure holds no text of an exception and no content of a record.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._runs: object = None

    async def apply(
        self,
        spec: TransformSpec,
        place: TopicPartition,
        views: Sequence[BatchView],
        start: int = 0,
        stop: int = _TO_THE_END,
    ) -> Transformed:
        """What a topic's transform makes of the records from ``start`` up to ``stop``; others are left out.

        Args:
            spec: The topic's.
            place: The partition on the source.
            views: Consecutive batches of data.
            start: An offset of the source.
            stop: Likewise.
        """
        work = Work(place.topic, place.partition, spec.steps, start, stop)
        async with self._turn:
            made, batches = await self._ask(spec, work, [view.memory for view in views])
        reason = None if made.failure is None else _reason(spec, place, start, made.failure)
        found = list(views) if made.is_same else list(iter_batches(batches))
        return Transformed(found, reason, made.unreadable, made.is_same)

    async def start(self, spec: TransformSpec) -> None:
        """Start the process before it is needed; what keeps it from starting is said by `apply`."""
        async with self._turn:
            if not spec.problem:
                await self._started(spec)

    async def check(self, spec: TransformSpec) -> str:
        """Why a topic's function cannot run: it is imported, and run with an empty batch; empty where it can."""
        if spec.problem:
            return f"{spec.name} {spec.problem}"
        async with self._turn:
            made, _ = await self._started(spec, is_trial=True)
        await self.close()
        if made.failure is None:
            return ""
        tail = "" if made.failure.at_start else " for a batch without records"
        return f"{spec.name} {made.failure.why}{tail}"

    async def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            await in_thread(self._process.wait)
            self._process = None

    async def _ask(self, spec: TransformSpec, work: Work, batches: Sequence[memoryview]) -> _Answer:
        if spec.problem:
            return Made(Failure(None, spec.problem, at_start=True)), _NOTHING
        answer = Made(_ENDED), _NOTHING
        for _ in range(2):  # a process that was killed is no fault of the function, unless it is again
            answer = await self._started(spec)
            if answer[0].failure is None:
                answer = await self._answer(work, batches)
            if answer[0].failure != _ENDED:
                break
        return answer

    async def _started(self, spec: TransformSpec, *, is_trial: bool = False) -> _Answer:
        """Start the child, unless it runs already with this function; the answer says whether the function is there."""
        function = (spec.function, spec.settings, spec.archive)
        runs = self._process is not None and self._process.poll() is None
        if runs and not is_trial and (not spec.function or function == self._runs):
            return Made(), _NOTHING
        await self.close()
        path = [folder for folder in sys.path if folder]
        self._process = _child(path)
        if spec.archive:
            path.insert(0, str(_unpacked(spec)))
        self._runs = function
        answer = await self._answer(Start(path, spec.function, dict(spec.settings), is_trial))
        if answer[0].failure is not None:
            await self.close()
        return answer

    async def _answer(self, message: object, batches: Sequence[memoryview] = ()) -> _Answer:
        process = self._process
        assert process is not None
        stdin, stdout = cast("BinaryIO", process.stdin), cast("BinaryIO", process.stdout)

        def exchange() -> _Answer:
            send(stdin, message, batches)
            return receive(stdout)

        try:
            return await within(MOST_SECONDS, in_thread(exchange))
        except TimeoutError:
            await self.close()
            return Made(Failure(None, f"took longer than {MOST_SECONDS:.0f} s")), _NOTHING
        except (EOFError, OSError):
            await self.close()
            return Made(_ENDED), _NOTHING
        except asyncio.CancelledError:
            process.kill()
            raise


def _child(path: Sequence[str]) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-P", "-c", "from mmtool.transforms.child import main; main()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | _MALLOC | {"PYTHONPATH": os.pathsep.join(path)},
    )
    for pipe in (child.stdin, child.stdout):
        with suppress(OSError, AttributeError):  # Linux; the host's limit may be lower
            fcntl.fcntl(cast("BinaryIO", pipe), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    return child


def _reason(spec: TransformSpec, place: TopicPartition, start: int, failure: Failure) -> HaltReason:
    where = f" for the record of {place} at source offset {failure.offset}"
    if failure.offset is None:
        where = "" if failure.at_start else f" for the records of {place} from source offset {start} on"
    frames = f" ({'; '.join(failure.frames)})" if len(failure.frames) > 1 else ""
    correct = "correct the function or its settings: the running `mmtool replicate` tries again"
    return HaltReason(f"{spec.name} {failure.why}{frames}{where}", failure.cure or correct)


def _unpacked(spec: TransformSpec) -> Path:
    """The archive as a file, which is named by its content."""
    from hashlib import sha256

    name = f"{sha256(spec.archive).hexdigest()[:32]}.zip"
    path = cache_root() / "transforms" / name
    if not path.exists():
        try:
            write_whole(path, spec.archive)
        except OSError:  # no home, or one that is read only
            path = Path(tempfile.mkdtemp(prefix="mmtool-transform-"), name)
            write_whole(path, spec.archive)
    return path
