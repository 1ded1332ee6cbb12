"""What a machine consists of, in words for a stranger."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlmodel import Session
from tests.checkpoints.telling import section_text, written

from sitrepd.hardware.box import described, model_disks
from sitrepd.hardware.limits import cpu_limit, cpuset
from sitrepd.hardware.models import Host, HostSnapshot
from sitrepd.hardware.network import Interface, interfaces
from sitrepd.hardware.paths_between import grouped
from sitrepd.hardware.processor import caches
from sitrepd.hardware.topology import pci_path, peer_word


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def gpu(index: int, **more: object) -> dict[str, object]:
    return {
        "index": index, "architecture": "Hopper", "compute_capability": "9.0", "pcie_generation": 1,
        "pcie_generation_max": 5, "pcie_width": 16, "pcie_width_max": 16, "power_limit_w": 700.0,
        "power_limit_default_w": 700.0, "ecc": True, "mig": False, "vbios": "96.00", "numa_node": index // 2,
    } | more  # fmt: skip


FACTS = {
    "gpus": [gpu(0), gpu(1, power_limit_w=500.0), gpu(2), gpu(3, pcie_width=8)],
    "driver": "580.95.05",
    "cuda_driver": "13.0",
    "topology": [
        ["X", "PXB", "SYS", "SYS"],
        ["PXB", "X", "SYS", "SYS"],
        ["SYS"] * 2 + ["X", "PXB"],
        ["SYS"] * 2 + ["PXB", "X"],
    ],
    "peers": [["X" if a == b else "OK" for b in range(4)] for a in range(4)],
    "numa": ["node0: CPUs 0-31", "node1: CPUs 32-63"],
    "sockets": 2,
    "cores": 64,
    "cpu_architecture": "x86_64",
    "caches": ["L2 1 MiB × 64", "L3 32 MiB × 16"],
    "kernel": "6.8.0",
    "container": "docker",
    "virtualization": "KVM",
    "memory_limit_bytes": 512 * 10**9,
    "cpu_limit": 32.0,
    "cpuset": "0-31",
    "available_cpus": 32,
    "cpu_count": 64,
    "swap_bytes": 0,
    "network": [
        {"name": "eth0", "state": "up", "speed_mbps": 25000, "driver": "virtio_net"},
        {"name": "ib0", "state": "down", "rdma": "mlx5_0", "link": "InfiniBand, 400 Gb/sec (4X NDR)"},
    ],
    "nic_paths": {"ib0": ["PIX", "PXB", "SYS", "SYS"]},
}


def test_the_box_in_words() -> None:
    assert described(FACTS) == [
        (
            "GPUs",
            "Hopper, compute capability 9.0, PCIe Gen5 x16 (GPU 0-2), power limit 700 W (GPU 0, 2-3), ECC on, MIG off, "
            "VBIOS 96.00, power limit 500 W (as made 700 W) (GPU 1), PCIe Gen5 x16, linked at x8 only (GPU 3), "
            "driver 580.95.05, CUDA up to 13.0",
        ),
        ("paths between GPUs", "PXB within 0-1, 2-3; else SYS; peer access between all GPUs"),
        ("NUMA", "node0: CPUs 0-31, GPU 0-1; node1: CPUs 32-63, GPU 2-3"),
        ("processor", "2 sockets, 64 cores, x86_64, L2 1 MiB × 64, L3 32 MiB × 16"),
        (
            "system",
            "kernel 6.8.0, in a container (docker), in a virtual machine (KVM), "
            "limited to memory 512.0 GB (512000000000 bytes), time of 32 CPUs, CPUs 0-31",
        ),
        (
            "network",
            "eth0 25 Gb/s, virtio_net; "
            "ib0 RDMA mlx5_0, InfiniBand, 400 Gb/sec (4X NDR), down, PIX to GPU 0, PXB to GPU 1",
        ),
    ]


def test_a_gpu_that_is_lost_does_not_make_the_others_different() -> None:
    told = dict(described({"gpus": [gpu(0), {"index": 1, "reason": "the GPU is lost"}, gpu(2)]}))
    assert told["GPUs"].startswith("Hopper, compute capability 9.0, PCIe Gen5 x16, ")
    assert told["GPUs"].endswith("VBIOS 96.00, GPU 1 cannot be read")


def test_a_machine_that_tells_nothing_says_nothing() -> None:
    assert described({}) == []
    assert described({"gpus": [{"index": 0}], "topology": [["X"]], "numa": ["node0: CPUs 0"]}) == []


def test_a_checkpoint_tells_the_box_and_the_room_left_for_models(tmp_path: Path) -> None:
    disk = {"path": "/data", "filesystem": "xfs", "total_bytes": 8 * 10**12, "free_bytes": 5 * 10**11, "network": False}
    disks = [disk | {"holds": ["/data/kimi"]}, {"path": "/", "filesystem": "ext4", "holds": []}]

    def change(db: Session) -> None:
        db.add(Host(id=7, name="box", machine="m", provenance="observed", disks=disks))
        db.flush()
        db.add(HostSnapshot(host_id=7, at=datetime(2026, 12, 1, tzinfo=UTC), digest="d", data=FACTS))

    told = [{"type": "session", "name": "s"}, {"type": "launch", "name": "l", "host": "H7", "state": "exited"}]

    def name_it(db: Session) -> None:
        change(db)
        from sitrepd.launches.models import Launch

        launch = db.get(Launch, 1)
        assert launch is not None
        launch.host_id = 7

    rendered = written(tmp_path, [told[0], {k: v for k, v in told[1].items() if k != "host"}], name_it)
    lines = section_text(rendered, "hardware")
    assert "- H7 paths between GPUs: PXB within 0-1, 2-3; else SYS; peer access between all GPUs" in lines
    assert lines[-1] == (
        "- H7 model files: /data/kimi on /data (xfs), 500.0 GB (500000000000 bytes) free of 8.0 TB (8000000000000 bytes)"
    )
    items = next(part for part in rendered["sections"] if part["name"] == "hardware")["items"]
    assert [item["what"] for item in items if item.get("volatile")] == ["model files"]


def test_a_disk_that_does_not_answer_is_named_without_its_room() -> None:
    disk = {"path": "/nfs", "filesystem": "nfs4", "network": True, "free_bytes": None, "holds": ["/nfs/m"]}
    assert model_disks([disk]) == ["/nfs/m on /nfs (nfs4 over the network)"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("X NV18,NV18 X", "NV18 between all"),
        ("X", None),
        ("X ?,? X", None),
        ("X SYS PIX,SYS X SYS,PIX SYS X", "PIX within 0+2; else SYS"),
        ("X PIX ?,PIX X ?,? ? X", "PIX between all; not known of GPU 2"),
        # 0-1 are near, 1-2 are near, 0-2 are not: no groups.
        ("X PIX SYS,PIX X PIX,SYS PIX X", "GPU 0: X PIX SYS; GPU 1: PIX X PIX; GPU 2: SYS PIX X"),
    ],
)
def test_paths_are_told_in_groups_where_there_are_any(rows: str, said: str | None) -> None:
    assert grouped([row.split() for row in rows.split(",")]) == said


def test_eight_gpus_on_two_sockets() -> None:
    def word(a: int, b: int) -> str:
        return "X" if a == b else "PXB" if a // 2 == b // 2 else "NODE" if a // 4 == b // 4 else "SYS"

    matrix = [[word(a, b) for b in range(8)] for a in range(8)]
    assert grouped(matrix) == "PXB within 0-1, 2-3, 4-5, 6-7; NODE within 0-3, 4-7; else SYS"


def test_peer_access_in_words() -> None:
    assert peer_word([["X", "OK"], ["OK", "X"]]) == "between all GPUs"
    assert peer_word([["X", "OK", "chipset"], ["OK", "X", "OK"], ["chipset", "OK", "X"]]) == "between some GPUs"
    assert peer_word([["X", "chipset"], ["chipset", "X"]]) == "not possible (chipset)"
    assert peer_word([["X"]]) is None


# --- what the kernel tells ---------------------------------------------------------------------------------------


def pci(root: Path, chains: dict[str, tuple[str, str]]) -> Path:
    """Devices at the ends of chains of bridges, with their NUMA nodes."""
    (root / "bus/pci/devices").mkdir(parents=True)
    for address, (chain, node) in chains.items():
        folder = root / "devices" / chain / address
        write(folder, {"numa_node": node})
        (root / "bus/pci/devices" / address).symlink_to(folder)
    return root


def test_the_path_between_two_devices_follows_the_bridges(tmp_path: Path) -> None:
    switch = "pci0000:00/0000:00:01.0/0000:01:00.0"
    root = pci(
        tmp_path,
        {
            "0000:03:00.0": (f"{switch}/0000:02:00.0", "0"),
            "0000:04:00.0": (f"{switch}/0000:02:01.0", "0"),
            "0000:09:00.0": (f"{switch}/0000:02:02.0/0000:07:00.0/0000:08:00.0", "0"),
            "0000:0a:00.0": ("pci0000:00/0000:00:02.0", "0"),
            "0000:41:00.0": ("pci0000:40/0000:40:01.0", "0"),
            "0000:81:00.0": ("pci0000:80/0000:80:01.0", "1"),
        },
    )
    near = "0000:03:00.0"
    assert pci_path(near, "0000:04:00.0", root) == "PIX"
    assert pci_path(near, "0000:09:00.0", root) == "PXB"
    assert pci_path(near, "0000:0a:00.0", root) == "PHB"
    assert pci_path(near, "0000:41:00.0", root) == "NODE"
    assert pci_path(near, "0000:81:00.0", root) == "SYS"
    assert pci_path(near, "0000:ff:00.0", root) == "?"


def test_a_shared_cache_counts_once(tmp_path: Path) -> None:
    files = {}
    for cpu in range(4):
        base = f"sys/devices/system/cpu/cpu{cpu}"
        files[f"{base}/topology/thread_siblings_list"] = "0-1" if cpu < 2 else "2-3"
        for index, (level, kind, size, shared) in enumerate(
            [("1", "Data", "48K", "0-1" if cpu < 2 else "2-3"), ("3", "Unified", "327680K", "0-3")]
        ):
            cache = f"{base}/cache/index{index}"
            files |= {
                f"{cache}/level": level,
                f"{cache}/type": kind,
                f"{cache}/size": size,
                f"{cache}/shared_cpu_list": shared,
            }
    assert caches(write(tmp_path, files)) == ("L1d 48 KiB × 2", "L3 320 MiB × 1")
    assert caches(tmp_path / "nothing") == ()


def test_limits_of_the_control_group(tmp_path: Path) -> None:
    newer = {"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}
    newer |= {"sys/fs/cgroup/a/cpu.max": "250000 100000\n", "sys/fs/cgroup/a/b/cpuset.cpus.effective": "0-3,8\n"}
    root = write(tmp_path / "v2", newer)
    assert (cpu_limit(root), cpuset(root)) == (2.5, "0-3,8")
    older = {"proc/self/cgroup": "3:cpu,cpuacct:/x\n4:cpuset:/y\n", "sys/fs/cgroup/cpu/x/cpu.cfs_quota_us": "50000"}
    older |= {"sys/fs/cgroup/cpu/x/cpu.cfs_period_us": "100000", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1"}
    older |= {"sys/fs/cgroup/cpuset/y/cpuset.effective_cpus": "1"}
    root = write(tmp_path / "v1", older)
    assert (cpu_limit(root), cpuset(root)) == (0.5, "1")
    assert (cpu_limit(tmp_path), cpuset(tmp_path)) == (None, None)


def test_interfaces_of_hardware_and_rdma_devices(tmp_path: Path) -> None:
    device = "sys/devices/pci0000:00/0000:00:05.0"
    files = {
        f"{device}/numa_node": "1",
        f"{device}/infiniband/mlx5_0/ports/1/rate": "400 Gb/sec (4X NDR)",
        f"{device}/infiniband/mlx5_0/ports/1/link_layer": "InfiniBand",
        f"{device}/infiniband/mlx5_0/ports/1/state": "4: ACTIVE",
        f"{device}/net/ib0/operstate": "up",
        "sys/class/net/lo/operstate": "unknown",
        "sys/class/net/docker0/operstate": "up",
        "sys/class/net/eth0/operstate": "up",
        "sys/class/net/eth0/speed": "-1",
    }
    root = write(tmp_path, files)
    (root / device / "net/ib0/device").symlink_to(root / device)
    (root / device / "infiniband/mlx5_0/device").symlink_to(root / device)
    (root / "sys/class/net/ib0").symlink_to(root / device / "net/ib0")
    (root / "sys/class/infiniband").mkdir()
    (root / "sys/class/infiniband/mlx5_0").symlink_to(root / device / "infiniband/mlx5_0")
    assert interfaces(root) == (
        Interface("eth0", "up"),
        Interface(
            "ib0", "up", pci_bus_id="0000:00:05.0", numa_node=1, rdma="mlx5_0", link="InfiniBand, 400 Gb/sec (4X NDR)"
        ),
    )
    assert interfaces(tmp_path / "nothing") == ()
