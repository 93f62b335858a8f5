"""How pytest-xdist gives tests to workers: file by file, and files that share clusters to one worker."""

from __future__ import annotations

from xdist.scheduler import LoadFileScheduling


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """As ``--dist loadfile``; tests with the mark ``xdist_group``, as for ``--dist loadgroup``, go with their group."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, rest = nodeid.partition("::")
        _, marked, group = rest.rpartition("]")[2].rpartition("@")
        return group if marked else file
