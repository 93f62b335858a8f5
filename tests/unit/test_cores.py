"""The cores that a process may use, read from cgroups that look as the kernel shows them."""

import os

import pytest

from mmtool.runtime.process import usable_cores

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cgroups are Linux's")


@pytest.fixture
def limited(tmp_path, monkeypatch):
    """On a host of 64 cores, the cores usable with these files ``cpu.max``, by the cgroup that has them."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)))

    def cores(limits, own="/kubepods/pod-1"):
        for cgroup, limit in limits.items():
            folder = tmp_path / "cgroups" / cgroup
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "cpu.max").write_text(f"{limit}\n", encoding="utf-8")
        (tmp_path / "ours").write_text(f"2:memory:/small\n0::{own}\n", encoding="utf-8")
        return usable_cores(tmp_path / "cgroups", tmp_path / "ours")

    return cores


def test_a_container_has_the_cores_of_its_limit(limited):
    assert limited({".": "200000 100000"}, own="/") == 2


def test_a_part_of_a_core_counts_as_one(limited):
    assert limited({".": "20000 100000"}, own="/") == 1
    assert limited({".": "150000 100000"}, own="/") == 2


def test_the_narrowest_limit_of_all_cgroups_above_counts(limited):
    assert limited({"kubepods": "300000 100000", "kubepods/pod-1": "800000 100000"}) == 3


def test_without_a_limit_it_is_the_cores_of_the_affinity(limited):
    assert limited({"kubepods/pod-1": "max 100000"}) == 64


def test_a_limit_above_the_affinity_adds_no_core(limited):
    assert limited({"kubepods/pod-1": "9900000 100000"}) == 64


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
