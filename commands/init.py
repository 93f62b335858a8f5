"""``mmtool init``: write the first properties file."""

from __future__ import annotations

from datetime import timedelta

from mmtool.commands import _draft_questions as options
from mmtool.commands._options import Output
from mmtool.output import Column, OutputFormat, Result, finish

_TIMEOUT = timedelta(seconds=8)
_COLUMNS = (
    Column("cluster"),
    Column("side"),
    Column("bootstrap_servers"),
    Column("state"),
    Column("cluster_id"),
    Column("brokers"),
    Column("message", note=True),
)
_WAYS = (
    ("mirror the records that the source holds now, then stop", ("--until-caught-up",)),
    ("mirror until stopped", ()),
)


@options.with_clusters
def init(
    *,
    config: options.NewConfig = None,
    force: options.Force = False,
    yes: options.Yes = False,
    no_probe: options.NoProbe = False,
    topics: options.Topics = None,
    groups: options.Groups = None,
    topic_names: options.TopicNames = None,
    output: Output = OutputFormat.TABLE,
    timeout: options.Timeout = _TIMEOUT,
    **clusters: str | None,
) -> None:
    """Write the first properties file: from answers on a terminal or from options; connect to both clusters once.

    A cluster that does not answer is reported, and the file is written all the same. A password is never written:
    the file names the environment variable or the file that holds it.
    """
    of_flow = {"topics": topics, "groups": groups, "topic_names": topic_names}
    given = {f"--{name.replace('_', '-')}": value for name, value in (of_flow | clusters).items()}
    from mmtool.commands._new_config import tell_next_steps, write_first_file
    from mmtool.runtime.files import new_file

    path = config or options.NEW_FILE
    with new_file(path, force=force) as file:
        draft = options.draft_of(path, given, asks=not yes)
        written = write_first_file(file, draft, None if no_probe else timeout)
    result = Result("init", written.rows, _COLUMNS, written.warnings, applied=True)
    finish(result, output, written.error)
    tell_next_steps(path, _WAYS)
