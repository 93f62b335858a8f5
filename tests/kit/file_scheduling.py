"""How pytest-xdist gives tests to workers: file by file, and the files that share clusters to one worker."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling

SHARING = "tests/integration/secured"
"""The folder whose files share clusters."""


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """As ``--dist loadfile``, but that a folder goes to one worker as a whole.

    The mark ``xdist_group`` cannot say so: pytest 9.2 ignores the name that pytest-xdist 3.8 gives to such a test.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return SHARING if file.startswith(SHARING) else file
