"""What a process may use: read from files as the kernel writes them, and from this machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.models.machine import Machine, read_machine

GIB = 1024**3
V2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"


def machine_of(
    root: Path,
    *,
    memory_kb: int = 16 * 1024 * 1024,
    processors: str = "0-7",
    cgroup: str = "0::/\n",
    mounts: str = V2,
    files: dict[str, str] | None = None,
) -> Machine:
    """A machine whose kernel tells this much."""
    written = {
        "proc/meminfo": f"MemTotal:       {memory_kb} kB\nMemFree:          1 kB\n",
        "proc/self/status": f"Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t{processors}\n",
        "proc/self/cgroup": cgroup,
        "proc/self/mountinfo": f"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n{mounts}\n",
        **(files or {}),
    }
    for name, text in written.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return read_machine(root)


def test_without_limits_it_is_all_that_the_machine_has(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory.max": "max\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}
    assert machine_of(tmp_path, files=files) == Machine(16 * GIB, 8)


def test_a_container_has_its_share(tmp_path: Path) -> None:
    files = {
        "sys/fs/cgroup/memory.max": f"{4 * GIB}\n",
        "sys/fs/cgroup/cpu.max": "150000 100000\n",
    }
    assert machine_of(tmp_path, files=files) == Machine(4 * GIB, 1.5, is_bounded=True)


def test_the_narrowest_of_the_groups_above_counts(tmp_path: Path) -> None:
    group = "sys/fs/cgroup/user.slice/rondo.service"
    files = {
        "sys/fs/cgroup/user.slice/memory.max": f"{3 * GIB}\n",
        f"{group}/memory.max": f"{6 * GIB}\n",
        f"{group}/memory.high": f"{5 * GIB}\n",
        f"{group}/cpu.max": "200000 100000\n",
    }
    machine = machine_of(tmp_path, cgroup="0::/user.slice/rondo.service\n", files=files)
    assert machine == Machine(3 * GIB, 2, is_bounded=True)


def test_the_first_version_of_control_groups_is_read_too(tmp_path: Path) -> None:
    mounts = (
        "40 30 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "41 30 0:32 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "42 30 0:33 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd"
    )
    files = {
        "sys/fs/cgroup/memory/jobs/memory.limit_in_bytes": f"{2 * GIB}\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "300000\n",
        "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    cgroup = "5:memory:/jobs\n4:cpu,cpuacct:/jobs\n1:name=systemd:/x\n0::/\n"
    machine = machine_of(tmp_path, cgroup=cgroup, mounts=mounts, files=files)
    assert machine == Machine(2 * GIB, 3, is_bounded=True)


def test_a_container_that_sees_the_path_of_its_host_finds_its_own_limit(tmp_path: Path) -> None:
    mounts = "40 30 0:31 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory"
    files = {"sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n"}
    cgroup = "5:memory:/docker/abc\n"
    machine = machine_of(tmp_path, cgroup=cgroup, mounts=mounts, files=files)
    assert machine == Machine(GIB, 8, is_bounded=True)


def test_a_group_outside_of_what_is_mounted_is_not_followed_there(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("1\n")
    files = {"sys/fs/cgroup/memory.max": f"{GIB}\n"}
    machine = machine_of(tmp_path, cgroup="0::/../../../..\n", files=files)
    assert machine.memory_bytes == GIB


@pytest.mark.parametrize(("allowed", "count"), [("0", 1), ("0-3", 4), ("0-1,4,6-7", 5)])
def test_processors_that_a_process_may_not_use_do_not_count(
    tmp_path: Path, allowed: str, count: int
) -> None:
    assert machine_of(tmp_path, processors=allowed).processors == count


def test_where_the_kernel_tells_nothing_python_does(tmp_path: Path) -> None:
    machine = read_machine(tmp_path)
    assert machine.memory_bytes == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert machine.processors == os.cpu_count()


def test_this_machine_is_read_the_same_each_time() -> None:
    machine = read_machine()
    assert machine == read_machine()
    assert 0 < machine.processors <= (os.cpu_count() or 1)
    assert 0 < machine.memory_bytes <= os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
