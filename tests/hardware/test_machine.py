from __future__ import annotations

import os
import platform
import socket
from pathlib import Path

import psutil
import pytest

from sitrepd.hardware.machine import (
    container_hint,
    cpu_model,
    memory_limit,
    numa_nodes,
    os_name,
    read_machine,
    virtualization_hint,
)

TWO_SOCKETS = "\n\n".join(
    f"processor\t: {n}\nmodel name\t: AMD EPYC  9575F 64-Core\nphysical id\t: {n // 4}\ncore id\t: {n % 4 // 2}"
    for n in range(8)
)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_this_machine(tmp_path):
    machine = read_machine([tmp_path])
    assert machine.name == socket.gethostname()
    assert machine.kernel == platform.release()
    assert machine.cpu_count == os.cpu_count()
    assert 1 <= machine.available_cpus <= machine.cpu_count
    assert machine.memory_bytes == psutil.virtual_memory().total
    assert machine.boot_id == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert any(str(tmp_path) in disk.holds for disk in machine.disks)


def test_sockets_cores_and_names_come_from_proc_and_etc(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/cpuinfo": TWO_SOCKETS,
            "etc/os-release": 'NAME="Ubuntu"\nPRETTY_NAME="Ubuntu 24.04.2 LTS"\n',
            "etc/machine-id": "0123abcd\n",
            "sys/devices/system/node/node0/cpulist": "0-3\n",
            "sys/devices/system/node/node1/cpulist": "4-7\n",
        },
    )
    machine = read_machine(root=root)
    assert (machine.cpu, machine.sockets, machine.cores) == ("AMD EPYC 9575F 64-Core", 2, 4)
    assert (machine.os, machine.machine_id, machine.boot_id) == ("Ubuntu 24.04.2 LTS", "0123abcd", None)
    assert machine.numa == ("node0: CPUs 0-3", "node1: CPUs 4-7")


def test_an_arm_kernel_tells_no_sockets(tmp_path):
    root = write(tmp_path, {"proc/cpuinfo": "processor\t: 0\nBogoMIPS\t: 2000.00\n"})
    machine = read_machine(root=root)
    assert (machine.cpu, machine.sockets) == (None, None)


def test_without_os_release_the_kernel_is_named(tmp_path):
    assert os_name(tmp_path) == "Linux"
    assert cpu_model("") is None
    assert numa_nodes(tmp_path) == ()


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, None),
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": "4096\n"}, 4096),
        (
            {
                "proc/self/cgroup": "0::/a/b\n",
                "sys/fs/cgroup/a/b/memory.max": "8192\n",
                "sys/fs/cgroup/a/memory.max": "4096\n",
            },
            4096,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "512\n"}, 512),
        ({"proc/self/cgroup": "4:memory:/x\n", "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "1024\n"}, 1024),
        (
            {
                "proc/self/cgroup": "9:cpu,cpuacct:/y\n4:memory:/x\n",
                "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "9223372036854771712\n",
            },
            None,
        ),
        ({}, None),
    ],
)
def test_the_tightest_cgroup_limit_counts(tmp_path, files: dict[str, str], limit: int | None):
    assert memory_limit(write(tmp_path, files)) == limit


@pytest.mark.parametrize(
    ("files", "hint"),
    [
        ({".dockerenv": ""}, "docker"),
        ({"run/.containerenv": ""}, "podman"),
        ({"proc/1/cgroup": "0::/system.slice/kubepods-burstable.slice\n"}, "kubepods"),
        ({".singularity.d/env/01-base.sh": "", "run/systemd/container": "lxc"}, "apptainer"),
        ({"run/systemd/container": "systemd-nspawn\n"}, "systemd-nspawn"),
        ({"proc/1/environ": "TERM=linux\0container=lxc\0HOME=/root\0", "proc/1/cgroup": "0::/\n"}, "lxc"),
        ({"proc/1/environ": "mycontainer=x\0container=\0", "proc/1/cgroup": "0::/\n"}, None),
        ({"proc/1/cgroup": "11:memory:/docker/0123\n0::/docker/0123\n"}, "docker"),
        ({"proc/1/cgroup": "0::/init.scope\n"}, None),
    ],
)
def test_containers_leave_marks(tmp_path, files: dict[str, str], hint: str | None, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert container_hint(write(tmp_path, files)) == hint


@pytest.mark.parametrize(
    ("vendor", "cpuinfo", "hint"),
    [
        ("Amazon EC2", "", "Amazon EC2"),
        ("QEMU", "flags\t: fpu hypervisor", "QEMU"),
        ("Supermicro", "flags\t\t: fpu vme hypervisor lahf_lm\n", "virtual machine"),
        ("Supermicro", "flags\t\t: fpu vme lahf_lm\n", None),
    ],
)
def test_hypervisors_by_dmi_or_by_the_processor(tmp_path, vendor: str, cpuinfo: str, hint: str | None):
    root = write(tmp_path, {"sys/class/dmi/id/sys_vendor": vendor + "\n"})
    assert virtualization_hint(root, cpuinfo) == hint
