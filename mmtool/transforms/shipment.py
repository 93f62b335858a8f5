"""Find the module of a flow's function, and pack it for workers under a version that names its content."""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Iterator
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mmtool.errors import install_extra
from mmtool.plan.flow.transforms import READY_MADE, Step, TransformSpec

if TYPE_CHECKING:
    from mmtool.config import FlowSettings

MOST_BYTES = 8 << 20
"""Of a packed module or package: it is sent to each task of each round."""

_OWN_REVISION = b"1"
"""Of the ready-made functions: it changes when one of them makes something else of a record."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
_SKIPPED = ("__pycache__",)


class Shipment:
    """A flow's transforms as its workers get them now: the function's code is read once.

    Args:
        settings: The flow's.
    """

    def __init__(self, settings: FlowSettings) -> None:
        self._settings = settings
        self._archive, self._problem = b"", ""
        transforms = settings.transforms
        if transforms.function:
            self._archive, self._problem = _packed(transforms.function, transforms.folder)

    def of(self, topic: str) -> TransformSpec | None:
        """What is done to the records of a source topic; None where they are copied as they are."""
        steps, function = self._settings.steps_of(topic), self._settings.function_of(topic)
        return self._spec(steps, function) if steps or function else None

    @property
    def code(self) -> tuple[bytes, str]:
        """The function's code, or why there is none; equal while nothing has changed."""
        return self._archive, self._problem

    @property
    def function(self) -> TransformSpec:
        """The function alone, for any topic; the flow has one."""
        return self._spec((), self._settings.transforms.function)

    def _spec(self, steps: tuple[Step, ...], function: str) -> TransformSpec:
        own = self._settings.transforms
        settings = {**own.settings, "on.error": own.on_error} if own.settings and function else {}
        is_own = function.startswith(READY_MADE)
        parts = [json.dumps([steps]).encode()]
        if function:
            of = [dict(own.public), "" if is_own or not settings else own.on_error]
            parts += (json.dumps(of).encode(), function.encode(), _OWN_REVISION if is_own else self._archive)
        name = "+".join(filter(None, ("transforms" if steps else "", function)))
        digest = sha256(b"\0".join(parts)).hexdigest()[:12]
        halting = f"{name}@{digest}"
        is_milder = is_own and own.on_error != "halt"
        return TransformSpec(
            f"{halting}+{own.on_error}" if is_milder else halting,
            steps,
            function,
            settings,
            self._archive if function else b"",
            self._problem if function else "",
            (halting,) if is_milder else (),
        )


def _packed(function: str, folder: str) -> tuple[bytes, str]:
    """The module or package of a function as a zip file, and why there is none; both empty where workers have it."""
    if find_spec("pyarrow") is None:
        return b"", f"needs pyarrow, which this host lacks: {install_extra('transform')}"
    if function.startswith(READY_MADE):
        return b"", ""
    top = function.partition(":")[0].partition(".")[0]
    spec = PathFinder.find_spec(top, [folder, *sys.path])
    origin = None if spec is None else spec.origin
    if spec is None or (origin is None and not spec.submodule_search_locations):
        return b"", f"is in no module that mmtool finds: put {top}.py into {folder}, or install it"
    places = spec.submodule_search_locations
    root = Path(next(iter(places))) if places else Path(str(origin))
    packed = io.BytesIO()
    try:
        with zipfile.ZipFile(packed, "w") as archive:  # not compressed: by any zlib the same bytes
            for path in _files(root):
                name = Path(root.name, path.relative_to(root)) if places else Path(root.name)
                archive.writestr(zipfile.ZipInfo(name.as_posix(), _EPOCH), path.read_bytes())
                if packed.tell() > MOST_BYTES:
                    return (
                        b"",
                        f"is in a package of more than {MOST_BYTES >> 20} MiB: move it into a module of its own",
                    )
    except OSError as error:
        return b"", f"cannot be read from {root}: {error.strerror}"
    return packed.getvalue(), ""


def _files(root: Path) -> Iterator[Path]:
    """The files of a module or package, in the order of their names."""
    if root.is_file():
        yield root
        return
    for path in sorted(root.rglob("*")):
        if path.is_file() and not any(part in _SKIPPED for part in path.parts):
            yield path
