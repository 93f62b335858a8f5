"""The service of `mmtool init`: check a draft, ask its clusters, write the file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypedDict

from mmtool.commands._new_config import not_usable_yet
from mmtool.errors import ConfigError, MmtoolError, UsageError, with_remedy
from mmtool.output import hide, talk
from mmtool.plain_text import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta
    from pathlib import Path

    from mmtool.commands._config_check import CheckedFile
    from mmtool.config import Settings
    from mmtool.config.draft import Draft, DraftCluster
    from mmtool.config.report import Finding
    from mmtool.config.scopes import Side
    from mmtool.doctor.examination import Answer
    from mmtool.errors import CheckFailedError
    from mmtool.runtime.files import NewFile

_MOST_REPLICAS = 3


class FirstContactRow(TypedDict):
    """One cluster in `mmtool init`.

    Attributes:
        cluster: The alias.
        side: Of the flow.
        bootstrap_servers: As the file has them.
        state: `answers`, `not_asked`, or the code of the error, such as `unreachable` or `not_authorised`.
        cluster_id: As its brokers report it; null where it is not known.
        brokers: How many are alive; null where it is not known.
        message: Why the cluster did not answer; empty where it did, or was not asked.
        file: The file that was written.
    """

    cluster: str
    side: Literal["source", "target"]
    bootstrap_servers: str
    state: str
    cluster_id: str | None
    brokers: int | None
    message: str
    file: str


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that was written.

    Attributes:
        rows: One for each cluster.
        warnings: Clusters that did not answer, and what the check of the file found.
        error: Why no command can use the file yet; None where it can be used.
    """

    rows: list[FirstContactRow]
    warnings: tuple[str, ...]
    error: CheckFailedError | None


def write_first_file(file: NewFile, draft: Draft, timeout: timedelta | None) -> WrittenFile:
    """Check the draft, ask its clusters, and write the file with what they answered.

    Args:
        file: Gets the text.
        draft: As the operator answered.
        timeout: Of one request; None: no cluster is asked.

    Raises:
        UsageError: The file could not be used; nothing is written.
    """
    checked = _check(file, draft)
    answers: Mapping[str, Answer | MmtoolError] = {}
    if timeout is not None and checked.settings is not None:
        answers = _ask(checked.settings, timeout)
        draft = _completed(draft, answers)
        checked = _check(file, draft)
    file.publish()
    talk(f"{file.path} was written")
    away = [with_remedy(answer) for answer in answers.values() if isinstance(answer, MmtoolError)]
    if checked.good_for and not away:
        talk(f"{file.path} {checked.good_for}")
    found = [finding.sentence for finding in checked.findings if finding.severity == "warning"]
    rows = [_row(file.path, side, cluster, answers) for side, cluster in draft.sides.items()]
    return WrittenFile(rows, (*away, *found, *checked.exposed), _unusable(file.path, checked))


def _check(file: NewFile, draft: Draft) -> CheckedFile:
    """What `mmtool config check` says. Its errors may only be about secrets and stores that are not in place yet.

    Raises:
        UsageError: There is another error.
    """
    from mmtool.commands._config_check import check_file
    from mmtool.config.draft import text_of

    file.write(text_of(draft).encode())
    checked = check_file(file.draft)
    checked = replace(checked, findings=tuple(_named(finding, file) for finding in checked.findings))
    wrong = [f for f in checked.errors if f.key not in draft.outside_keys]
    if wrong:
        raise UsageError(
            Lines.of(f"`{f.key}`{f.message}" if f.key else f.message for f in wrong),
            remedy="correct the options or answers; nothing was written",
        )
    if checked.refusal is not None:
        raise checked.refusal
    return checked


def _named(finding: Finding, file: NewFile) -> Finding:
    """The finding with the name that the file gets."""
    return replace(finding, path=file.path, message=finding.message.replace(str(file.draft), str(file.path)))


def _ask(settings: Settings, timeout: timedelta) -> Mapping[str, Answer | MmtoolError]:
    from mmtool.commands._connections import examined_clusters
    from mmtool.doctor.examination import ask_each

    for secret in settings.secrets():
        hide(secret)
    talk(f"connecting to {' and '.join(settings.clusters)}")
    return ask_each(examined_clusters(settings, settings.flows, timeout.total_seconds()))


def _completed(draft: Draft, answers: Mapping[str, Answer | MmtoolError]) -> Draft:
    """The draft with the clusters' ids, and with a replication factor that both can have.

    Raises:
        ConfigError: Both aliases lead to one cluster.
    """
    known = {alias: answer for alias, answer in answers.items() if not isinstance(answer, MmtoolError)}
    source, target = (
        replace(cluster, cluster_id=known[cluster.alias].cluster_id) if cluster.alias in known else cluster
        for cluster in draft.sides.values()
    )
    if source.cluster_id is not None and source.cluster_id == target.cluster_id:
        raise ConfigError(
            f"{source.alias} and {target.alias} are the same cluster, {source.cluster_id}; nothing was written",
            remedy="give each alias the bootstrap servers of its own cluster",
        )
    brokers = [answer.brokers for answer in known.values()]
    replicas = min(_MOST_REPLICAS, *brokers) if len(known) == len(draft.sides) else None
    return replace(draft, source=source, target=target, replicas=replicas)


def _row(
    path: Path, side: Side, cluster: DraftCluster, answers: Mapping[str, Answer | MmtoolError]
) -> FirstContactRow:
    answer = answers.get(cluster.alias)
    state, message = "not_asked", ""
    brokers: int | None = None
    if isinstance(answer, MmtoolError):
        state, message = answer.code, answer.message
    elif answer is not None:
        state, brokers = "answers", answer.brokers
    return {
        "cluster": cluster.alias,
        "side": side,
        "bootstrap_servers": cluster.servers,
        "state": state,
        "cluster_id": cluster.cluster_id,
        "brokers": brokers,
        "message": message,
        "file": str(path),
    }


def _unusable(path: Path, checked: CheckedFile) -> CheckFailedError | None:
    """The error that says what has to be in place before a command can use the file."""
    if not checked.errors:
        return None
    return not_usable_yet(
        path,
        Lines.of(finding.sentence for finding in checked.errors),
        "set the variables and provide the files that the error names",
    )
