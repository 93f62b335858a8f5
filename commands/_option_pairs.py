"""Options that mean nothing without another one, or beside it: the command line is refused, never taken in silence."""

from __future__ import annotations

from typing import Any

from mmtool.errors import UsageError

NEEDS = {
    "yes": ("execute",),
    "report": ("execute",),
    "fence_watch": ("fence",),
    "principal_map": ("promote_acls",),
    "sign": ("html",),
    "metrics_address": ("metrics_port",),
    "metrics_level": ("metrics_port",),
    "every": ("watching",),
    "partitions": ("by_group", "group"),
}
"""Options that have an effect only if one of others is not at its default, in commands that have them all."""

EXCLUDE = (
    ("all_groups", "group"),
    ("all_groups", "groups"),
    ("all_groups", "unit"),
    ("once", "every"),
    ("max_lag_seconds", "watching"),
    ("max_lag_seconds", "by_group"),
    ("max_lag_seconds", "group"),
    ("refine", "reverse"),
    ("strimzi", "connect"),
)
"""Options of which one takes away the effect of the other."""


def is_given(ctx: Any, name: str | None) -> bool:
    """Whether the command line sets a parameter of the command, if only to its default."""
    source = None if name is None else ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def check_pairs(ctx: Any) -> None:
    """Check that every given option has an effect.

    Raises:
        UsageError: One has none.
    """
    known = {parameter.name: parameter for parameter in ctx.command.params}
    given = {name for name in known if is_given(ctx, name)}

    def said(name: str) -> str:
        return str(max(known[name].opts, key=len))

    for name, needed in NEEDS.items():
        if name not in given or not known.keys() >= set(needed):
            continue
        if all((ctx.params[one] or None) == (known[one].get_default(ctx) or None) for one in needed):
            raise UsageError(
                f"{said(name)} has no effect without {said(needed[0])}",
                remedy=f"add {said(needed[0])}, or leave out {said(name)}",
            )
    for one, other in EXCLUDE:
        if {one, other} <= given:
            raise UsageError(
                f"{said(one)} and {said(other)} exclude each other", remedy="leave out one of them"
            )
