"""The cores that a process may use, read from cgroups that look as the kernel shows them."""

import os

import pytest

from mmtool.runtime.process import usable_cores

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cgroups are Linux's")


@pytest.mark.parametrize(
    ("limits", "own", "cores"),
    [
        ({".": "200000 100000"}, "/", 2),
        ({".": "20000 100000"}, "/", 1),  # a part of a core counts as one
        ({".": "150000 100000"}, "/", 2),
        ({"kubepods": "300000 100000", "kubepods/pod-1": "800000 100000"}, "/kubepods/pod-1", 3),
        ({"kubepods/pod-1": "max 100000"}, "/kubepods/pod-1", 64),
        ({"kubepods/pod-1": "9900000 100000"}, "/kubepods/pod-1", 64),  # the affinity is narrower
    ],
)
def test_the_narrowest_limit_of_the_affinity_and_of_all_cgroups_counts(
    limits, own, cores, tmp_path, monkeypatch
):
    """On a host of 64 cores, with these files ``cpu.max``, by the cgroup that has them."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    for cgroup, limit in limits.items():
        folder = tmp_path / "cgroups" / cgroup
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text(f"{limit}\n", encoding="utf-8")
    (tmp_path / "ours").write_text(f"2:memory:/small\n0::{own}\n", encoding="utf-8")
    assert usable_cores(tmp_path / "cgroups", tmp_path / "ours") == cores


def test_a_limit_of_cgroups_of_version_1_counts(tmp_path, monkeypatch):
    """A container's own cgroup is its topmost one; the path that the host knows leads nowhere."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))
    folder = tmp_path / "cpu,cpuacct"
    folder.mkdir()
    (folder / "cpu.cfs_period_us").write_text("100000\n", encoding="utf-8")
    ours = tmp_path / "ours"
    ours.write_text("3:cpu,cpuacct:/kubepods/pod-1\n0::/\n", encoding="utf-8")
    for quota, cores in (("250000", 3), ("-1", 64)):
        (folder / "cpu.cfs_quota_us").write_text(f"{quota}\n", encoding="utf-8")
        assert usable_cores(tmp_path, ours) == cores


def test_a_host_without_cgroups_has_the_cores_of_the_affinity(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3})
    assert usable_cores(tmp_path, tmp_path / "missing") == 2
