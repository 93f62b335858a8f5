"""The closed table of log events, and `Notice`: a sentence for the operator with its event and fields.

A `Notice` is a `str`: code that passes sentences on (`say`, lists of news, warnings of a result) passes it on as it is,
and a person reads the same text. With ``--log-format json`` its event and its fields are logged as well.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

FLOW_ARROW = "->"


class Event(StrEnum):
    """The events. The value is the log's ``event``; ``sentence`` says when it is logged."""

    sentence: str

    def __new__(cls, word: str, sentence: str) -> Self:
        """Create one row of the table."""
        event = str.__new__(cls, word)
        event._value_ = word
        event.sentence = sentence
        return event

    # --- a flow and its owner ---
    FLOW_STARTED = (
        "flow_started",
        "`replicate` has connected to both clusters of a flow, and joins the flow's ownership group.",
    )
    FLOW_DEFERRED = (
        "flow_deferred",
        "A flow cannot start yet, for example because a cluster does not answer; `replicate` retries.",
    )
    FLOW_STOPPED = (
        "flow_stopped",
        "`replicate` has stopped running a flow and released its ownership lease.",
    )
    OWNERSHIP_AWAITED = "ownership_awaited", "Another process owns the flow, and this one waits for it."
    OWNERSHIP_ACQUIRED = (
        "ownership_acquired",
        "This process owns the flow, and no former owner can write any more.",
    )
    OWNERSHIP_LOST = (
        "ownership_lost",
        "This process has lost ownership of the flow, or its last batches may be incomplete; it reacquires the flow.",
    )
    OWNERSHIP_REACQUIRED = (
        "ownership_reacquired",
        "This process owns the flow again, and no other owner can write any more.",
    )
    TOKEN_REFRESH_FAILED = (
        "token_refresh_failed",
        "A token endpoint gives no new token while the last one is still valid; mmtool keeps asking.",
    )
    CLUSTER_AWAY = "cluster_away", "A flow waits for a cluster that does not answer."
    DUTY_FAILED = (
        "duty_failed",
        "Scheduled work, such as heartbeats or checkpoints, has failed; `replicate` retries it.",
    )
    DUTY_RESUMED = "duty_resumed", "Scheduled work that had failed has succeeded again."
    STOPPING = "stopping", "`replicate` received a signal to stop."

    # --- rounds and workers ---
    ROUND_STARTED = "round_started", "A round, which is one Spark job, was planned and is submitted."
    ROUND_ENDED = "round_ended", "A round has ended, and its workers have reported."
    SPARK_JOB_FAILED = "spark_job_failed", "A Spark job has failed; `replicate` starts another one."
    SPARK_JOB_CANCELLED = "spark_job_cancelled", "Workers did not stop in time; their Spark job is cancelled."
    SLOTS_SHORT = "slots_short", "Spark has fewer slots than there are tasks."
    SLOTS_ENOUGH = "slots_enough", "Spark has slots for more tasks again."
    WORKER_STARTED = "worker_started", "A worker has reported its positions for the first time in a round."
    WORKER_ENDED = "worker_ended", "A worker has reported the end of its part of a round."

    # --- topics and partitions ---
    TOPIC_CREATED = "topic_created", "A topic was created on the target."
    PARTITIONS_ADDED = "partitions_added", "A topic on the target was given more partitions."
    TOPIC_HALTED = "topic_halted", "A topic cannot be mirrored at all."
    TOPIC_DELETED = (
        "topic_deleted",
        "A mirrored topic was deleted on the source, or its mirror on the target.",
    )
    TOPICS_LEFT_OUT = (
        "topics_left_out",
        "Topics are not mirrored because their names look like those of mirrors.",
    )
    TOPICS_UNREADABLE = (
        "topics_unreadable",
        "The topics of a flow could not be refreshed; `replicate` retries.",
    )
    NO_TOPIC = "no_topic", "No topic of the source matches `topics` yet."
    PARTITION_HALTED = "partition_halted", "A partition is not copied until the cause in `reason` is fixed."
    PARTITION_WAITING = "partition_waiting", "A partition is not copied for now."
    PARTITION_RESUMED = "partition_resumed", "A halted partition is copied again."
    DATA_LOSS = (
        "data_loss",
        "The source deleted records before they were copied; mirroring continues after the gap.",
    )
    FOREIGN_RECORDS = "foreign_records", "Another producer has written records into a mirror."
    DEAD_LETTERS = (
        "dead_letters",
        "Records that are too large for the target topic are in the dead-letter topic instead.",
    )
    UNREADABLE_VALUES = (
        "unreadable_values",
        "Values that are no JSON were copied or left out, as `mmtool.transform.on.error` says.",
    )
    PREFILL = (
        "prefill",
        "Logs of the target are empty, and their ends are moved to the offsets at which their mirrors begin.",
    )
    QUOTA_THROTTLED = "quota_throttled", "A quota of a cluster slows the flow down."
    QUOTA_RELEASED = "quota_released", "No quota slows the flow down any more."
    THROTTLE_CHANGED = "throttle_changed", "The flow's own throttle was set or lifted."
    BROKER_SILENT = (
        "broker_silent",
        "A broker does not answer, and its partitions are not copied until it answers.",
    )
    BROKER_ANSWERS = "broker_answers", "A silent broker answers again."
    PAUSED = "paused", "An operator has paused a topic or the flow."
    RESUMED = "resumed", "An operator has resumed a topic or the flow."
    FAILED_OVER = "failed_over", "Topics are not mirrored because a failover has moved their groups."
    RELEASED = "released", "Topics that had failed over are mirrored again."
    MIRROR_MAKER_SEEN = "mirror_maker_seen", "MirrorMaker 2 runs the same flow."
    MIRROR_MAKER_GONE = "mirror_maker_gone", "MirrorMaker 2 does not run the flow any more."

    # --- configuration ---
    CONFIG_RELOADED = "config_reloaded", "`replicate` uses a changed properties file."
    CONFIG_REFUSED = "config_refused", "`replicate` does not use a changed properties file, or a part of it."
    CONFIG_VALUE_ADJUSTED = (
        "config_value_adjusted",
        "A configured value is not used; `message` names the value that mmtool uses instead.",
    )

    # --- operations ---
    OPERATION_STARTED = "operation_started", "A failover, failback or drill has started or was resumed."
    STEP_STARTED = "step_started", "A step of an operation, or of the demo, has started."
    STEP_DONE = "step_done", "A step is done."
    STEP_FAILED = "step_failed", "A step has failed."
    STEP_UNDONE = "step_undone", "A step was rolled back."
    OPERATION_COMPLETED = "operation_completed", "An operation has done all of its steps."
    OPERATION_FAILED = "operation_failed", "An operation has ended before its last step."
    OPERATION_CANCELLED = "operation_cancelled", "An operation that had written no offset was cancelled."
    OPERATION_ROLLED_BACK = (
        "operation_rolled_back",
        "The groups of an operation have their previous offsets again.",
    )
    HOOK_OUTPUT = "hook_output", "A line that a hook has written to stdout or stderr."

    # --- every command ---
    PROGRESS = "progress", "The progress of a flow: records, rates, lag and partitions."
    MESSAGE = "message", "Any other sentence."
    WARNING = "warning", "A warning; the command continues."
    ERROR = (
        "error",
        "An error that ended the command, or concerns one group, topic or partition; with code and remedy.",
    )
    LIBRARY_LOG = "library_log", "A log line or warning of a library; most of them only with `--debug`."


LOGGED_ONLY = frozenset(
    {
        Event.FLOW_STARTED, Event.FLOW_STOPPED, Event.OWNERSHIP_REACQUIRED, Event.ROUND_STARTED,
        Event.ROUND_ENDED, Event.WORKER_STARTED, Event.WORKER_ENDED, Event.TOPIC_CREATED,
        Event.PARTITIONS_ADDED, Event.PARTITION_RESUMED, Event.OPERATION_COMPLETED, Event.OPERATION_FAILED,
        Event.OPERATION_CANCELLED, Event.OPERATION_ROLLED_BACK,
    }
)  # fmt: skip
"""Events that people see by the progress or the result, so that only a log has them as messages."""


WARNINGS = frozenset(
    {
        Event.FLOW_DEFERRED, Event.OWNERSHIP_LOST, Event.CLUSTER_AWAY, Event.DUTY_FAILED, Event.SPARK_JOB_FAILED,
        Event.SPARK_JOB_CANCELLED, Event.SLOTS_SHORT, Event.TOPIC_HALTED, Event.TOPIC_DELETED,
        Event.TOPICS_UNREADABLE, Event.NO_TOPIC, Event.PARTITION_HALTED, Event.DATA_LOSS, Event.FOREIGN_RECORDS,
        Event.DEAD_LETTERS, Event.QUOTA_THROTTLED, Event.BROKER_SILENT, Event.FAILED_OVER,
        Event.MIRROR_MAKER_SEEN, Event.CONFIG_REFUSED, Event.CONFIG_VALUE_ADJUSTED, Event.STEP_FAILED,
        Event.OPERATION_FAILED, Event.TOKEN_REFRESH_FAILED, Event.WARNING,
    }
)  # fmt: skip
"""Events that are warnings: ``-q`` keeps them."""


FIELDS = {
    "timestamp": "When, UTC, ISO 8601 with microseconds.",
    "level": "`debug`, `info`, `warning` or `error`.",
    "event": "What has happened: one of the [events](log-events.md).",
    "message": "The sentence that a person reads without `--log-format json`.",
    "command": "The command, without options and arguments, such as `failover planned`.",
    "flow": "`source->target`.",
    "source": "The alias of the flow's source.",
    "target": "The alias of the flow's target.",
    "topic": "The topic's name on the source.",
    "target_topic": "The topic's name on the target.",
    "topics": "The topics' names on the source, for an event about several topics.",
    "partition": "The partition's number.",
    "upstream_position": "The next offset to fetch from the partition.",
    "executor": "The worker that reported the event: `host/ID` with Spark's id of the executor, or else `host:PID`.",
    "round": "The number of the round, counted from the start of the process.",
    "reason": "Why, without the rest of the message.",
    "operation": "The id of the failover, failback or drill.",
    "mode": "Of an operation: `planned`, `emergency`, `failback` or `drill`.",
    "step": "The step of an operation, or of the demo.",
    "seconds": "How long it took.",
    "key": "The configuration key; `file` and `line` say where the key is set.",
    "code": "Of an error: the word of `errors[].code` in `-o json`.",
    "remedy": "Of an error: what the operator can do.",
    "exit_code": "Of an error that ends the command: its exit code.",
    "traceback": "Of an error, with `--debug`.",
    "logger": "Of a library's line: its logger.",
}
"""The fields of a line that several events share, and what each holds."""


def is_for_people(message: str) -> bool:
    """Whether a message is shown to people as well, and not only logged."""
    return not (isinstance(message, Notice) and message.event in LOGGED_ONLY)


class Notice(str):
    """A sentence with its event, and the event's fields.

    Equal to the bare sentence; what is formatted from it is a bare string again, so sentences are put together by
    `under` and `flow_notice`.

    Attributes:
        event: The event.
        fields: What it concerns: ``flow``, ``topic``, ``partition``, ``operation``, ``executor``, figures.
    """

    __slots__ = ("event", "fields")
    event: Event
    fields: dict[str, object]

    def __new__(cls, sentence: str, event: Event = Event.MESSAGE, **fields: object) -> Self:
        """Create a notice; empty fields are left out."""
        notice = super().__new__(cls, sentence)
        notice.event = event
        notice.fields = {name: value for name, value in fields.items() if value is not None and value != ""}
        return notice

    @classmethod
    def of(cls, sentence: str, event: Event = Event.MESSAGE) -> Notice:
        """The notice itself, or a bare sentence as a notice of ``event``."""
        return sentence if isinstance(sentence, Notice) else cls(sentence, event)

    def under(self, prefix: str, **fields: object) -> Notice:
        """The notice with a prefix and more fields; the notice's own fields win."""
        return Notice(f"{prefix}{self}", self.event, **{**fields, **self.fields})


def flow_fields(flow: str) -> dict[str, object]:
    """The fields of a flow by its name, ``source->target``."""
    source, _, target = flow.partition(FLOW_ARROW)
    return {"flow": flow, "source": source, "target": target}


def flow_notice(flow: str, sentence: str, event: Event = Event.MESSAGE, **fields: object) -> Notice:
    """A notice about a flow, whose name begins the sentence.

    Args:
        flow: The flow's name.
        sentence: The sentence; a `Notice` keeps its event and fields.
        event: The event of a bare sentence.
        fields: Further fields.
    """
    return Notice.of(sentence, event).under(f"{flow}: ", **flow_fields(flow), **fields)


@dataclass(slots=True)
class NoticeDeduplicator:
    """Reports a problem when it starts, not at every check."""

    say: Callable[[str], None]
    _said: dict[str, str] = field(default_factory=dict)

    def once(self, about: str, sentence: str) -> None:
        """Report the sentence, unless it is the last one that was reported about the same subject."""
        if self._said.get(about) != sentence:
            self._said[about] = sentence
            self.say(sentence)

    def is_well(self, about: str) -> bool:
        """Clear the report about the subject, so that the same problem is reported again when it returns.

        Returns whether there was such a report.
        """
        return self._said.pop(about, None) is not None
