"""``mmtool lab``: start and stop local Kafka clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from mmtool.commands._options import Output, state_dir_option
from mmtool.errors import RefusedError
from mmtool.lab.security.kinds import ADMIN, GUEST, MMTOOL, Secure, client_file
from mmtool.output import Column, OutputFormat, Result, emit, finish, talk, warn, write
from mmtool.plain_text import shell_word

if TYPE_CHECKING:
    from mmtool.lab.security.kinds import SecurityKind
    from mmtool.lab.state import LabState, StateDirectory

app = typer.Typer(no_args_is_help=True)

StateDir = Annotated[Path | None, state_dir_option("Folder", "lab")]
Clusters = Annotated[
    str | None,
    typer.Option(
        "--clusters",
        metavar="A,B",
        help="Aliases; the first is the source. Default: as last time with this --state-dir, else a,b.",
    ),
]
Brokers = Annotated[
    int | None,
    typer.Option(
        "--brokers", metavar="N", min=1, max=9, help="Brokers per cluster. Default: as last time, else 1."
    ),
]
KafkaVersion = Annotated[
    str | None,
    typer.Option(
        "--kafka-version", metavar="VERSION", help="Kafka version. Default: as last time, else 4.4.0."
    ),
]
SecureOption = Annotated[
    Secure | None,
    typer.Option(
        "--secure",
        metavar="KIND",
        help="TLS, logins and ACLs: scram, mtls, oauth or none. Default: as last time, else none.",
    ),
]
PrintConfig = Annotated[
    bool, typer.Option("--print-config", help="Write the properties to stdout instead of the table.")
]
KeepData = Annotated[
    bool,
    typer.Option(
        "--keep-data",
        help="Delete nothing: the next `mmtool lab up` with this --state-dir starts these clusters again,"
        " with their topics and groups.",
    ),
]

COLUMNS = (
    Column("cluster"),
    Column("broker"),
    Column("state"),
    Column("bootstrap"),
    Column("pid", essential=False),
    Column("cluster_id", essential=False),
)


@app.command()
def up(
    *,
    clusters: Clusters = None,
    brokers: Brokers = None,
    kafka_version: KafkaVersion = None,
    secure: SecureOption = None,
    state_dir: StateDir = None,
    print_config: PrintConfig = False,
    output: Output = OutputFormat.TABLE,
) -> None:
    """Start embedded Kafka clusters, which run until `mmtool lab down`.

    After `mmtool lab down --keep-data`, an option that is not given has its last value for the same --state-dir.
    """
    from mmtool.lab import session
    from mmtool.lab.artifacts import is_cached

    directory = _directory(state_dir)
    names = tuple(name.strip() for name in clusters.split(",")) if clusters is not None else None
    request = session.LabRequest.of(directory.read(), names, brokers, kafka_version, secure)
    if not is_cached(request.kafka_version):
        talk(
            f"downloading Kafka {request.kafka_version} (about 45 MB); the next start uses the downloaded copy"
        )
    talk(f"starting clusters {', '.join(request.clusters)}")
    state, ran_before = session.up(directory, request)
    rows = _rows(state)
    refusal = _refusal(rows, state_dir)
    if refusal is None:
        talk(
            "the clusters were already running"
            if ran_before
            else f"the clusters are running; stop them with `mmtool lab down{_here(state_dir)}`"
        )
    elif print_config:
        raise refusal
    if print_config:
        write(directory.properties.read_text(), applied=True)
    else:
        finish(Result("lab up", [row._asdict() for row in rows], COLUMNS, applied=True), output, refusal)
        _tell_next_steps(directory, state_dir, state.secure)


@app.command()
def down(*, state_dir: StateDir = None, keep_data: KeepData = False) -> None:
    """Stop the embedded clusters of `mmtool lab up`, and delete them with their topics, keys and properties file.

    --state-dir names the same folder as for `lab up`. No other cluster is contacted.
    """
    from mmtool.lab import session

    directory = _directory(state_dir)
    has_data = directory.read() is not None
    ran = session.down(directory, keep_data=keep_data)
    kept = f"their topics and groups were {'kept' if keep_data else 'deleted'}"
    if ran:
        talk(f"the clusters in {directory.path} have stopped; {kept}")
    else:
        talk(
            f"no lab runs in {directory.path}"
            + (f": the clusters there had stopped already; {kept}" if has_data else "")
        )


@app.command()
def status(*, state_dir: StateDir = None, output: Output = OutputFormat.TABLE) -> None:
    """Show the embedded clusters of `mmtool lab up`: each broker with its state and address; change nothing.

    --state-dir names the same folder as for `lab up`.
    """
    directory = _directory(state_dir)
    state = directory.read() if directory.is_running() else None
    if state is None:
        talk(f"no lab runs in {directory.path}; start one with `mmtool lab up{_here(state_dir)}`")
    rows = _rows(state) if state else []
    if (refusal := _refusal(rows, state_dir)) is not None:
        warn(f"{refusal.message}; {refusal.remedy}")
    emit(Result("lab status", [row._asdict() for row in rows], COLUMNS), output)


def _directory(state_dir: Path | None) -> StateDirectory:
    from mmtool.lab.state import StateDirectory, default_directory

    return StateDirectory((state_dir or default_directory()).absolute())


class BrokerRow(NamedTuple):
    """One broker in `mmtool lab up` and `mmtool lab status`.

    Attributes:
        cluster: The alias of its cluster.
        broker: Its id.
        state: Whether it runs, and answers.
        bootstrap: Its address.
        pid: Its process id.
        cluster_id: The id of its cluster.
        log: The file of its log.
    """

    cluster: str
    broker: int
    state: Literal["running", "not_answering", "stopped"]
    bootstrap: str
    pid: int
    cluster_id: str
    log: str


def _rows(state: LabState) -> list[BrokerRow]:
    from mmtool.lab.session import answer_of

    return [
        BrokerRow(one.cluster, one.broker, answer_of(one), one.bootstrap, one.pid, one.cluster_id, one.log)
        for one in state.brokers
    ]


def _refusal(rows: list[BrokerRow], state_dir: Path | None) -> RefusedError | None:
    """A broker that has died is not started again by itself: the rest of the lab goes on as it is."""
    stopped = [f"{row.broker} of cluster {row.cluster}" for row in rows if row.state == "stopped"]
    if not stopped:
        return None
    here = _here(state_dir)
    return RefusedError(
        f"broker {', broker '.join(stopped)} {'has' if len(stopped) == 1 else 'have'} stopped; the lab does not"
        " restart a broker by itself",
        remedy=f"start all brokers again with their data: `mmtool lab down --keep-data{here}`,"
        f" then `mmtool lab up{here}`",
        code="broker_stopped",
    )


def _here(state_dir: Path | None) -> str:
    return f" --state-dir {shell_word(str(state_dir))}" if state_dir else ""


def _tell_next_steps(directory: StateDirectory, state_dir: Path | None, secure: SecurityKind | None) -> None:
    talk(f"configuration: {directory.properties}")
    rights = {ADMIN: "all rights", MMTOOL: "the rights that the flows need", GUEST: "no rights"}
    for user, granted in rights.items() if secure is not None else ():
        talk(f"client properties of user {user} ({granted}): {client_file(directory.security, user)}")
    talk("next:")
    talk(f"  export MMTOOL_CONFIG={directory.properties}")
    talk("  mmtool replicate    # mirrors each topic within seconds of its creation; runs until Ctrl-C")
    talk("  mmtool smoke        # in a second shell: sends records through the flow")
    talk(f"  mmtool lab down{_here(state_dir)}")
