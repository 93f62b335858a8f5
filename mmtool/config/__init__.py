"""MirrorMaker 2's properties file as typed settings.

`properties` (lines) -> `placeholders` -> `scopes` (which scope wins) -> `keys` (the table) -> `flows` (one flow's
values) -> `settings` (the result). `load` runs them, `advice` comments on keys; `javaregex` is Java's regular
expressions.
"""

from __future__ import annotations

from mmtool.config.credentials import Security
from mmtool.config.load import load_settings
from mmtool.config.names import NameFilter
from mmtool.config.settings import ClusterSettings, FlowSettings, Settings, Unit

__all__ = ["ClusterSettings", "FlowSettings", "NameFilter", "Security", "Settings", "Unit", "load_settings"]
