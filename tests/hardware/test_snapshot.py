from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.stubs import NvmlStub

from sitrepd.hardware.disks import Disk
from sitrepd.hardware.gpus import GpuFacts
from sitrepd.hardware.machine import read_machine
from sitrepd.hardware.snapshot import HostSnapshot, combine

GPUS = [
    GpuFacts(0, name="NVIDIA H200", uuid="GPU-0", memory_bytes=150_754_820_096, pcie="Gen5 x16", pcie_generation=1),
    GpuFacts(1, name="NVIDIA H200", uuid="GPU-1", memory_bytes=150_754_820_096, pcie="Gen5 x16", pcie_generation=5),
]
TOPOLOGY = (("X", "NV18"), ("NV18", "X"))
DISK = Disk("/models", "/dev/md0", "xfs", False, 8_000_000_000_000, 5_000_000_000_000, ("/models/kimi",))


@pytest.fixture(scope="module")
def machine():
    return replace(read_machine(), disks=(DISK,))


@pytest.fixture(scope="module")
def snapshot(machine):
    return combine(machine, GPUS, TOPOLOGY, driver="580.159.04", cuda_driver="13.0")


def test_a_snapshot_survives_json(snapshot):
    text = snapshot.model_dump_json()
    assert HostSnapshot.model_validate_json(text) == snapshot
    assert json.loads(text)["gpus"][0]["name"] == "NVIDIA H200"
    assert HostSnapshot.model_validate_json(text).static_hash() == snapshot.static_hash()


def test_host_fields_are_those_of_the_session_file(snapshot):
    told = snapshot.host_fields()
    assert list(told) == (
        ["name", "os", "cpu", "cpu_count", "memory_bytes", "gpus", "interconnect", "topology", "numa", "disks", "note"]
    )  # fmt: skip
    assert told["gpus"][1] == {
        "index": 1,
        "name": "NVIDIA H200",
        "memory_bytes": 150_754_820_096,
        "uuid": "GPU-1",
        "pcie": "Gen5 x16",
        "architecture": None,
    }
    assert told["interconnect"] == "NVLink (NV18)"
    assert told["topology"] == [["X", "NV18"], ["NV18", "X"]]


def test_link_speed_and_free_space_do_not_change_the_hash(machine, snapshot):
    emptier = replace(machine, disks=(replace(DISK, free_bytes=1, holds=()),))
    busier = [replace(GPUS[0], pcie_generation=5), GPUS[1]]
    again = combine(emptier, busier, TOPOLOGY, driver="580.159.04", cuda_driver="13.0")
    assert again != snapshot
    assert again.static_hash() == snapshot.static_hash()


@pytest.mark.parametrize(
    ("filesystem", "network", "same"), [("zfs", False, True), ("nfs4", True, True), ("xfs", False, False)]
)
def test_only_a_size_that_is_fixed_counts(machine, filesystem: str, network: bool, same: bool):
    disk = replace(DISK, filesystem=filesystem, network=network)
    before = combine(replace(machine, disks=(disk,)), [])
    after = combine(replace(machine, disks=(replace(disk, total_bytes=None),)), [])
    assert (before.static_hash() == after.static_hash()) is same


@pytest.mark.parametrize(
    ("gpus", "driver"),
    [
        (GPUS, "590.10"),
        (GPUS[:1], "580.159.04"),
        ([replace(GPUS[0], pcie_width=8), GPUS[1]], "580.159.04"),
        ([replace(GPUS[0], power_limit_w=500.0), GPUS[1]], "580.159.04"),
        ([GPUS[0], replace(GPUS[1], reason="the GPU is lost")], "580.159.04"),
    ],
)
def test_a_change_of_hardware_changes_the_hash(machine, snapshot, gpus, driver):
    changed = combine(machine, gpus, TOPOLOGY, driver=driver, cuda_driver="13.0")
    assert changed.static_hash() != snapshot.static_hash()


def test_a_missing_gpu_is_in_the_note_and_has_a_name(machine):
    told = combine(machine, [GPUS[0], GpuFacts(1, reason="the GPU is lost")]).host_fields()
    assert told["note"] == "GPU 1: the GPU is lost"
    assert told["gpus"][1]["name"] == "unknown"


def test_no_gpu_is_said_plainly(machine):
    assert combine(machine, [], reason="no NVIDIA GPU found").host_fields()["note"] == "no NVIDIA GPU found"


@pytest.mark.gcc
def test_a_snapshot_of_a_machine_with_eight_gpus(nvml_stub: NvmlStub):
    told = nvml_stub.run(
        "from sitrepd.hardware.nvml import Nvml\nfrom sitrepd.hardware.snapshot import take_snapshot\n"
        "nvml = Nvml.open()\n"
        "first = take_snapshot(nvml)\n"
        "control.write_text('pcie_generation=1\\nutilization=90\\n')\n"
        "idle = take_snapshot(nvml)\n"
        "control.write_text('pcie_width.2=8\\n')\n"
        "narrow = take_snapshot(nvml)\n"
        "say([first.model_dump(mode='json'), *(s.static_hash() for s in (first, idle, narrow))])"
    )
    snapshot, first, idle, narrow = told
    assert len(snapshot["gpus"]) == len(snapshot["topology"]) == 8
    assert (snapshot["driver"], snapshot["cuda_driver"], snapshot["interconnect"]) == ("580.95.05", "13.0", "PCIe")
    assert snapshot["note"] is None
    assert first == idle != narrow
