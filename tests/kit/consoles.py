"""Who types the console blocks of `kit.doc_blocks`: a shell, or ``mmtool`` in this process."""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kit.doc_blocks import OPERATION, difference, updated, write_back
from kit.doc_scenes import SCENES
from kit.operations import KilledError
from kit.processes import untimed
from kit.wiring import wire
from mmtool.lab.ports import patience

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from kit.doc_blocks import Block, Typed
    from kit.scene import Scene
    from kit.wiring import Patch

PASSWORD_VARIABLE = "MMTOOL_SIGN_PASSWORD"  # noqa: S105  its name
_ALSO = {"--execute": "--yes", "sync": "--once", "--fence": "--fence-watch 100ms"}
"""A word of a command, and what is typed with it: nobody is there to answer, or to press Ctrl-C."""
_ASKING = {"genpkey": f"-pass env:{PASSWORD_VARIABLE}", "pkey": f"-passin env:{PASSWORD_VARIABLE}"}
"""Commands of openssl that would ask for a password."""
_ENDLESS = re.compile(r"mmtool (?:metrics|replicate)\b(?!.*--until-caught-up)")
_JQ = re.compile(r"(?:^|\| )jq ")
_SHELL_SIGN = re.compile(r"2?>|[|&<;]")
_INTERRUPTED = 130
_SECONDS = 300.0
_POLL_SECONDS = 0.2


class Shell:
    """Types lines into bash, all in one folder.

    Attributes:
        printed: What the last command wrote, both streams in one.
        code: How it ended.
        environ: Of the commands; ``export`` changes it.
        names: What stands in the pages for something of this machine, such as an address.
    """

    def __init__(
        self, folder: Path, environ: Mapping[str, str], names: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.environ, self.names = folder, {**os.environ, **environ}, dict(names or {})
        self.printed, self.code = "", 0

    def type(self, typed: Typed, width: int | None = None) -> None:
        """Run one line to its end; one that has no end, until it has printed what the page shows."""
        line = _with_more(self.meant(typed.line))
        if line == "echo $?":
            self.printed, self.code = f"{self.code}\n", 0
        elif line.startswith("export "):
            self._export(line.removeprefix("export "))
        elif _ENDLESS.match(line):
            self._interrupt(typed, line)
        else:
            self.run(line, width)

    def meant(self, line: str) -> str:
        """The line with this machine's names in it."""
        for name, real in self.names.items():
            line = line.replace(name, real)
        return line

    def run(self, line: str, width: int | None = None) -> None:
        """Run a line in bash."""
        del width
        with self._bash(line) as process:
            text = process.communicate(timeout=patience(_SECONDS))[0]
        self.printed, self.code = self.plain(text), process.returncode

    def plain(self, text: str) -> str:
        """What was printed, with the pages' names in it."""
        for name, real in self.names.items():
            text = text.replace(real, name)
        return text.replace(f"{self.folder}/", "").replace(str(self.folder), ".")

    def _export(self, assignment: str) -> None:
        self.run(f'export {assignment}; printf %s "${{{assignment.partition("=")[0]}}}"')
        self.environ[assignment.partition("=")[0]] = self.meant(self.printed)
        self.printed = ""

    @contextmanager
    def _bash(self, line: str, output: int = subprocess.PIPE) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def _interrupt(self, typed: Typed, line: str) -> None:
        """Until it has printed what the page shows, or begun to write into a file; then Ctrl-C."""
        written = self.folder / "printed"
        into = re.search(r">> (\S+)", line)
        watched = self.folder / into[1] if into else written
        with written.open("w") as output, self._bash(line, output.fileno()) as process:
            deadline = time.monotonic() + patience(_SECONDS)
            while process.poll() is None and time.monotonic() < deadline:
                text = untimed(self.plain(watched.read_text())) if watched.exists() else ""
                if text and not difference(typed, text):
                    os.killpg(process.pid, signal.SIGINT)
                    process.wait(patience(_SECONDS))
                time.sleep(_POLL_SECONDS)
        self.printed = untimed(self.plain(written.read_text()))
        self.code = 0 if process.returncode == _INTERRUPTED else process.returncode


class Stream(io.TextIOBase):
    """Stdout or stderr; both may write into one text."""

    def __init__(self, text: io.StringIO, *, is_tty: bool = False) -> None:
        self.text, self._is_tty = text, is_tty

    def write(self, text: str, /) -> int:
        return self.text.write(text)

    def isatty(self) -> bool:
        return self._is_tty


class InProcess(Shell):
    """Types ``mmtool`` on a scene, in this process, and everything else into bash."""

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        main: Callable[[Sequence[str]], None],
        names: Mapping[str, str],
    ) -> None:
        super().__init__(folder, environ, names)
        self._main = main
        self.scene: Scene | None = None
        self.color = False

    def begin(self, name: str, patch: Patch) -> None:
        """The scene of that name; ``patch`` as for `wire`."""
        found = SCENES[name]
        self.scene = found.make(self.folder)
        wire(self.scene, patch)
        for line in found.before:
            self.run(_with_more(self.meant(line)))

    def meant(self, line: str) -> str:
        line = super().meant(line)
        entries = self.scene.journal.entries() if self.scene is not None else []
        if not entries:
            return line
        return re.sub(rf"OPERATION_ID|\bID\b|{OPERATION.pattern}", entries[-1].operation_id, line)

    def run(self, line: str, width: int | None = None) -> None:
        if not line.startswith("mmtool "):
            super().run(line)
        elif _SHELL_SIGN.search(line):
            self._pipe(line)
        else:
            text = io.StringIO()
            self._call(line, Stream(text, is_tty=width is not None), Stream(text), width)
            self.printed = self.plain(text.getvalue())

    def _pipe(self, line: str) -> None:
        """The shell gets what the command has printed in this process."""
        out, err = io.StringIO(), io.StringIO()
        self._call(_SHELL_SIGN.split(line, maxsplit=1)[0], Stream(out), Stream(err))
        for name, text in ((".out", out), (".err", err)):
            (self.folder / name).write_text(self.plain(text.getvalue()), encoding="utf-8")
        super().run(f"mmtool() {{ cat .out; cat .err >&2; return {self.code}; }}; {line}")

    def _call(self, line: str, out: Stream, err: Stream, width: int | None = None) -> None:
        streams, before = (sys.stdout, sys.stderr), os.environ.copy()
        sys.stdout, sys.stderr = out, err
        os.environ.update(self.environ, COLUMNS=str(width or 80), NO_COLOR="" if self.color else "1")
        self.code = 0
        try:
            self._main(shlex.split(line)[1:])
        except SystemExit as ended:
            self.code = int(ended.code or 0)
        except KilledError:
            pass
        finally:
            sys.stdout, sys.stderr = streams
            os.environ.clear()
            os.environ.update(before)


def type_block(block: Block, console: Shell, *, update: bool = False) -> Iterator[str]:
    """Type a block's lines; yields what is wrong with each.

    Args:
        block: Of a page.
        console: Has typed the page's earlier blocks.
        update: Write into the page what the commands print, where that is something else.
    """
    label = block.label
    assert label is not None
    for typed in block.typed:
        if _JQ.search(typed.line) and shutil.which("jq") is None:
            continue
        if typed.line:
            console.type(typed, label.width)
            yield from _wrong_code(typed, console)
        found = difference(typed, console.printed, counts=label.counts)
        if found and update:
            write_back(block, typed, updated(typed, console.printed))
        elif found:
            yield found


def _wrong_code(typed: Typed, console: Shell) -> Iterator[str]:
    fails = any(line.startswith("error:") for line in typed.shown)
    if (console.code != 0) != fails:
        yield f"$ {typed.line}\nended with {console.code}\n{console.printed}"


def _with_more(line: str) -> str:
    """What is typed beside a page's line, before the shell's signs in it."""
    for verb, answer in _ASKING.items():
        if line.startswith(f"openssl {verb} "):
            return f"{line} {answer}"
    if not re.match(r"(?:\.venv/bin/)?mmtool ", line):
        return line
    sign = _SHELL_SIGN.search(line.replace("->", "--"))
    command, rest = (
        (line, "") if sign is None else (line[: sign.start()].rstrip(), f" {line[sign.start() :]}")
    )
    words = command.split()
    more = [also for word, also in _ALSO.items() if word in words and also not in command]
    return " ".join([command, *more]) + rest
