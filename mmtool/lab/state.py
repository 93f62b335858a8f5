"""The state directory of a detached lab, by which other processes find it.

``lab.json`` says what was started; the lock on ``supervisor.lock`` says that it runs, and ends with its
holder however that ended.
"""

from __future__ import annotations

import fcntl
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from mmtool.errors import GateError, UsageError
from mmtool.lab.ports import TlsFiles, wait_until
from mmtool.lab.security.kinds import SecurityKind
from mmtool.plan.records.shapes import made_of
from mmtool.runtime.files import state_root
from mmtool.translation.connect_offsets import parse_json

ALREADY_RUNNING = 3  # the supervisor's exit code when another one holds the lock
SECURITY_FOLDER = "security"
_LOCK_SECONDS = 1.0  # somebody who asks holds a shared lock for a moment


@dataclass(frozen=True, slots=True)
class BrokerState:
    """One broker as it was started.

    Attributes:
        probe_port: Of the listener on which the lab asks it; None where that is `port`.
        tls: What the lab authenticates with there.
    """

    cluster: str
    broker: int
    bootstrap: str
    port: int
    pid: int
    cluster_id: str
    log: str
    probe_port: int | None = None
    tls: TlsFiles | None = None

    @classmethod
    def read(cls, document: dict[str, Any]) -> BrokerState:
        """A broker as `StateDirectory.write` has stored it."""
        tls = document.pop("tls", None)
        return cls(**document, tls=None if tls is None else TlsFiles(**tls))


@dataclass(frozen=True, slots=True)
class LabState:
    """A lab that was started.

    Attributes:
        error: Why the last start failed; brokers, version and kind are then those of the last lab that did start,
            because its data may be kept. There are no brokers where there is no such lab.
    """

    supervisor_pid: int
    kafka_version: str
    brokers_per_cluster: int
    brokers: tuple[BrokerState, ...]
    error: str = ""
    remedy: str = ""
    secure: SecurityKind | None = None

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(broker.cluster for broker in self.brokers))


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """Where a lab keeps its clusters, logs and state."""

    path: Path

    @property
    def properties(self) -> Path:
        return self.path / "mmtool.properties"

    @property
    def security(self) -> Path:
        """The folder of a secured lab's certificates, stores and users."""
        return self.path / SECURITY_FOLDER

    @property
    def log(self) -> Path:
        return self.path / "supervisor.log"

    def read(self) -> LabState | None:
        """The state of the last lab that was started here; None where there was none."""
        try:
            document = parse_json((self.path / "lab.json").read_bytes())
            brokers = tuple(BrokerState.read(broker) for broker in document.pop("brokers"))
            secure = document.pop("secure", None)
            kind = None if secure is None else SecurityKind(secure)
            return made_of(LabState, {**document, "brokers": brokers, "secure": kind})
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._unusable("read", error) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{self.path}/lab.json does not describe a lab that this version of mmtool can read: {error}",
                remedy=f"choose another directory with --state-dir; or, if no lab runs in {self.path}, remove the file",
            ) from error

    def write(self, state: LabState) -> None:
        draft = self.path / ".lab.json"
        draft.write_text(json.dumps(asdict(state), indent=1))
        draft.rename(self.path / "lab.json")

    def forget(self) -> None:
        for file in (self.path / "lab.json", self.properties):
            file.unlink(missing_ok=True)

    def make(self) -> None:
        """Create the directory if it is missing.

        Raises:
            UsageError: The directory cannot be created or written.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self.log.open("ab").close()
        except OSError as error:
            raise self._unusable("written", error) from error

    def _unusable(self, how: str, error: OSError) -> UsageError:
        return UsageError(
            f"{self.path} cannot be {how}: {error.strerror}",
            remedy="name a directory that can be read and written: --state-dir DIR",
        )

    def lock(self) -> IO[bytes] | None:
        """The supervisor's lock, to be held for its lifetime; None where another process holds it."""
        self.path.mkdir(parents=True, exist_ok=True)
        handle = (self.path / "supervisor.lock").open("wb")
        try:
            wait_until(lambda: _flock(handle, fcntl.LOCK_EX), "the supervisor's lock", _LOCK_SECONDS)
        except GateError:
            handle.close()
            return None
        return handle

    def is_running(self) -> bool:
        """Whether a supervisor runs here; the test takes a shared lock, so that two tests do not see each other.

        Raises:
            UsageError: The directory cannot be read.
        """
        try:
            with (self.path / "supervisor.lock").open("rb") as handle:
                return not _flock(handle, fcntl.LOCK_SH)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise self._unusable("read", error) from error


def _flock(handle: IO[bytes], kind: int) -> bool:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def default_directory() -> Path:
    """``$XDG_STATE_HOME/mmtool/lab``, by default below ``~/.local/state``."""
    return state_root() / "lab"
