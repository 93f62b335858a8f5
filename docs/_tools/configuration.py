"""docs/reference/config.md: configuration.md.j2 with the table of keys."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mmtool.config.keys import CLUSTER_ID, FLOW_KEYS, OWN_PREFIXES, UNIT_PREFIX, Key
from mmtool.config.sasl import MECHANISMS
from mmtool.config.security import PROTOCOLS

HERE = Path(__file__).parent


def configuration() -> str:
    """The whole page, as Markdown."""
    templates = Environment(
        loader=FileSystemLoader(HERE),
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - Markdown
    )
    return templates.get_template("configuration.md.j2").render(
        keys=FLOW_KEYS.values(),
        own_prefixes=OWN_PREFIXES,
        unit_prefix=UNIT_PREFIX,
        cluster_id=CLUSTER_ID,
        protocols=PROTOCOLS,
        mechanisms=MECHANISMS,
        code=_code,
        valid=_valid,
    )


def _code(text: str | None) -> str:
    return "" if text is None else "`" + text.replace("|", "\\|") + "`"


def _valid(key: Key) -> str:
    if key.choices:
        return ", ".join(map(_code, key.choices))
    return f"{key.minimum} to {key.maximum}" if key.kind == "integer" else ""
