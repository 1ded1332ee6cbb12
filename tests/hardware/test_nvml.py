from __future__ import annotations

import subprocess
import sys

import pytest
from tests.stubs import NvmlStub

pytestmark = pytest.mark.gcc

OPEN = """
from dataclasses import asdict
from sitrepd.hardware.nvml import Nvml
nvml = Nvml.open(reopen_after_s=0, lost_after_s=0)
"""

# Answered in microseconds on a real GPU; energy, field batches, PCIe counters and fans block for milliseconds.
CHEAP = {
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetMemoryInfo_v2",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetCurrentClocksEventReasons",
}
SELDOM = {
    "nvmlDeviceGetFieldValues",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetRemappedRows",
    "nvmlDeviceGetPcieReplayCounter",
}


def uuid(gpu: int) -> str:
    return f"GPU-5e0f1a2b-3c4d-4e5f-8a9b-0000000000{gpu:02x}"


def test_facts_of_eight_gpus(nvml_stub: NvmlStub):
    told = nvml_stub.run(
        OPEN
        + "say([nvml.reason, nvml.driver_version, nvml.cuda_driver_version, [asdict(g) for g in nvml.gpu_facts()]])"
    )
    assert told[:3] == [None, "580.95.05", "13.0"]
    gpus = told[3]
    assert [gpu["uuid"] for gpu in gpus] == [uuid(n) for n in range(8)]
    assert gpus[7] == {
        "index": 7,
        "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "uuid": uuid(7),
        "pci_bus_id": "0000:e1:00.0",
        "pcie": "Gen5 x16",
        "architecture": "Blackwell",
        "compute_capability": "12.0",
        "memory_bytes": 97887 * 1024 * 1024,
        "vbios": "98.02.6A.00.03",
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "power_limit_w": 600.0,
        "power_limit_default_w": 600.0,
        "power_limit_min_w": 300.0,
        "power_limit_max_w": 600.0,
        "ecc": True,
        "mig": False,
        "persistence": True,
        "numa_node": None,
        "cpu_affinity": None,
        "reason": None,
    }


def test_numa_node_and_cpus_come_from_sysfs(nvml_stub: NvmlStub, tmp_path):
    device = tmp_path / "bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "numa_node").write_text("1\n")
    (device / "local_cpulist").write_text("32-63,96-127\n")
    told = nvml_stub.run(
        "from pathlib import Path\nfrom sitrepd.hardware.nvml import Nvml\n"
        f"nvml = Nvml.open(sys_root=Path({str(tmp_path)!r}))\n"
        "say([[g.numa_node, g.cpu_affinity] for g in nvml.gpu_facts()[:2]])"
    )
    assert told == [[1, "32-63,96-127"], [None, None]]


def test_samples_carry_each_gpus_own_values(nvml_stub: NvmlStub):
    nvml_stub.set(
        utilization__3=97,
        memory_utilization__3=41,
        memory_used__3=90_000_000_000,
        power_mw__3=598_234,
        temperature__3=81,
        sm_clock__3=1905,
        reasons__3=0x24,
        perf_state__3=2,
        memory_temperature__3=66,
        ecc_corrected__3=7,
        ecc_uncorrected__3=1,
        remapped_corrected__3=3,
        remapped_uncorrected__3=2,
        remap_pending__3=1,
        pcie_replays__3=12,
    )
    samples = nvml_stub.run(
        OPEN + "say([{**asdict(s), 'words': s.throttle_reasons, 'throttled': s.throttled} for s in nvml.gpu_samples()])"
    )
    assert samples[3] == {
        "index": 3,
        "uuid": uuid(3),
        "utilization_percent": 97,
        "memory_utilization_percent": 41,
        "memory_used_bytes": 90_000_000_000,
        "memory_reserved_bytes": 640 * 1024 * 1024,
        "memory_total_bytes": 97887 * 1024 * 1024,
        "power_w": 598.234,
        "temperature_c": 81,
        "sm_clock_mhz": 1905,
        "memory_clock_mhz": 12481,
        "clock_reasons_mask": 0x24,
        "perf_state": "P2",
        "memory_temperature_c": 66,
        "ecc_corrected": 7,
        "ecc_uncorrected": 1,
        "remapped_rows": 5,
        "remap_pending": True,
        "remap_failed": False,
        "pcie_replays": 12,
        "reason": None,
        "words": ["power cap", "thermal (software)"],
        "throttled": True,
    }
    assert samples[2]["utilization_percent"] == 0
    assert samples[2]["words"] == []
    assert samples[2]["throttled"] is False


def test_a_sample_makes_cheap_calls_only(nvml_stub: NvmlStub, tmp_path):
    """But for the first, which asks what is asked seldom as well."""
    calls = tmp_path / "calls"
    told = nvml_stub.run(
        OPEN + f"calls = Path({str(calls)!r})\ncontrol.write_text(f'log={{calls}}\\n')\n"
        "first = nvml.gpu_samples()\nfirst_calls = calls.read_text().split()\ncalls.unlink()\n"
        "second = nvml.gpu_samples()\nsay([first_calls, calls.read_text().split(), first == second])"
    )
    assert set(told[0]) == CHEAP | SELDOM
    assert set(told[1]) == CHEAP
    assert len(told[1]) == 8 * (len(CHEAP) + 1)
    assert told[2] is True


def test_what_is_not_supported_is_asked_again_only_with_the_facts(nvml_stub: NvmlStub, tmp_path):
    calls = tmp_path / "calls"
    nvml_stub.set(gpus=1)
    told = nvml_stub.run(
        OPEN + f"calls = Path({str(calls)!r})\n"
        "names = ('nvmlDeviceGetPowerUsage', 'nvmlDeviceGetRemappedRows', 'nvmlDeviceGetMemoryInfo_v2')\n"
        "fails = ''.join(f'fail.{name}=3\\n' for name in names)\n"
        "control.write_text(f'gpus=1\\nlog={calls}\\n' + fails)\n"
        "samples = [nvml.gpu_samples()[0] for _ in range(3)]\n"
        "asked = [calls.read_text().split().count(name) for name in (*names, 'nvmlDeviceGetMemoryInfo')]\n"
        "control.write_text('gpus=1\\n')\n"
        "still = nvml.gpu_samples()[0].power_w\n"
        "nvml.gpu_facts()\n"
        "say([asked, [s.power_w for s in samples], samples[2].memory_used_bytes, still, nvml.gpu_samples()[0].power_w])"
    )
    assert told == [[1, 1, 1, 3], [None] * 3, 640 * 1024 * 1024, None, 82.0]


def test_a_gpu_that_answers_again_is_seen_soon(nvml_stub: NvmlStub):
    nvml_stub.set(gpus=1, unsupported="all")
    told = nvml_stub.run(
        OPEN + "first = nvml.gpu_samples()[0].reason\ncontrol.write_text('gpus=1\\n')\n"
        "second = nvml.gpu_samples()[0]\nsay([first, second.reason, second.power_w])"
    )
    assert told == ["the GPU answers no query: the NVIDIA driver does not support the query", None, 82.0]


def test_a_gpu_that_supports_nothing_is_not_asked_each_second(nvml_stub: NvmlStub, tmp_path):
    calls = tmp_path / "calls"
    nvml_stub.set(gpus=1, unsupported="all", log=calls)
    told = nvml_stub.run(
        OPEN + "samples = [nvml.gpu_samples()[0].reason for _ in range(9)]\n"
        f"say([len(set(samples)), Path({str(calls)!r}).read_text().split().count('nvmlDeviceGetPowerUsage')])"
    )
    assert told == [1, 2]


def test_a_query_that_fails_now_and_then_is_asked_again(nvml_stub: NvmlStub):
    nvml_stub.set(gpus=1, fail__nvmlDeviceGetPowerUsage=999, no_memory_temperature=1)
    told = nvml_stub.run(
        OPEN + "first = nvml.gpu_samples()[0]\ncontrol.write_text('gpus=1\\n')\n"
        "say([first.power_w, first.memory_temperature_c, first.ecc_corrected, nvml.gpu_samples()[0].power_w])"
    )
    assert told == [None, None, 0, 82.0]


def test_what_takes_the_driver_long_is_asked_rarely(nvml_stub: NvmlStub):
    nvml_stub.set(gpus=1, hang__nvmlDeviceGetFieldValues=1)
    told = nvml_stub.run(
        OPEN + "nvml.gpu_samples()\nnow = time.monotonic()\n"
        "say({q.name: q.due_at - now for q in nvml._gpus[0].questions._seldom})"
    )
    assert set(told) == SELDOM
    assert told.pop("nvmlDeviceGetFieldValues") > 30
    assert max(told.values()) <= 60


def test_a_query_that_is_not_supported_is_absent(nvml_stub: NvmlStub):
    nvml_stub.set(
        fail__nvmlDeviceGetPowerUsage=3,
        fail__nvmlDeviceGetEccMode=3,
        fail__nvmlDeviceGetUtilizationRates__5=999,
        fail__nvmlDeviceGetMemoryInfo_v2=13,
    )
    told = nvml_stub.run(OPEN + "say([[asdict(g) for g in nvml.gpu_facts()], [asdict(s) for s in nvml.gpu_samples()]])")
    facts, samples = told
    assert facts[0]["ecc"] is None
    assert facts[0]["memory_bytes"] == 97887 * 1024 * 1024
    assert samples[0]["power_w"] is None
    assert samples[0]["utilization_percent"] == 0
    assert samples[5]["utilization_percent"] is None
    assert samples[0]["memory_used_bytes"] == 640 * 1024 * 1024
    assert samples[0]["memory_reserved_bytes"] is None
    assert [sample["reason"] for sample in samples] == [None] * 8


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (b"<b>GPU</b> \x1b[31m", "<b>GPU</b> \x1b[31m"),
        (b"", ""),
        (b"NVIDIA \xff\xfe", None),
        ("Карта 显卡".encode(), "Карта 显卡"),
    ],
)
def test_whatever_a_gpu_calls_itself(nvml_stub: NvmlStub, name: bytes, told: str | None):
    nvml_stub.control.write_bytes(b"gpus=2\nname.1=" + name + b"\n")
    names = nvml_stub.run(OPEN + "say([gpu.name for gpu in nvml.gpu_facts()])")
    assert names == ["NVIDIA RTX PRO 6000 Blackwell Server Edition", told]


def test_a_gpu_that_is_divided_tells_no_use(nvml_stub: NvmlStub):
    nvml_stub.set(gpus=1, mig=1, utilization=90, memory_used=1000)
    facts, sample = nvml_stub.run(OPEN + "say([asdict(nvml.gpu_facts()[0]), asdict(nvml.gpu_samples()[0])])")
    assert facts["mig"] is True
    assert (sample["utilization_percent"], sample["memory_used_bytes"], sample["reason"]) == (None, 1000, None)


def test_a_gpu_that_supports_nothing_says_so(nvml_stub: NvmlStub):
    nvml_stub.set(gpus=1, unsupported="all")
    told = nvml_stub.run(OPEN + "say([nvml.reason, [asdict(s) for s in nvml.gpu_samples()], len(nvml.gpu_facts())])")
    assert told[0] is None
    assert told[1][0]["reason"] == ("the GPU answers no query: the NVIDIA driver does not support the query")
    assert told[2] == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (4, "this user may not ask the NVIDIA driver (see the permissions of /dev/nvidia*)"),
        (9, "the NVIDIA driver is not loaded"),
        (
            18,
            "driver/library version mismatch: the NVIDIA driver was updated; reload it or reboot, "
            "then restart the daemon",
        ),
        (77, "the NVIDIA driver answers with error 77"),
    ],
)
def test_why_there_is_no_gpu(nvml_stub: NvmlStub, code: int, reason: str):
    nvml_stub.set(init=code)
    told = nvml_stub.run(
        OPEN + "say([nvml.reason, nvml.gpu_facts(), nvml.gpu_samples(), nvml.gpu_processes(), nvml.topology()])"
    )
    assert told == [reason, [], [], [], []]


def test_a_driver_without_gpus(nvml_stub: NvmlStub):
    nvml_stub.set(gpus=0)
    assert nvml_stub.run(OPEN + "say([nvml.reason, nvml.gpu_facts()])") == ["no NVIDIA GPU found", []]


@pytest.mark.parametrize(
    ("vendor", "kind", "reason"),
    [
        ("0x10de", "0x030200", "driver library not found (libnvidia-ml.so.1), though an NVIDIA GPU is on the PCI bus: "
                               "its driver is not installed"),
        ("0x10de", "0x020700", "no NVIDIA GPU found"),
        ("0x1002", "0x030000", "no NVIDIA GPU found"),
    ],
)  # fmt: skip
def test_without_the_library_the_pci_bus_is_asked(tmp_path, vendor: str, kind: str, reason: str):
    device = tmp_path / "bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text(vendor + "\n")
    (device / "class").write_text(kind + "\n")
    # An empty file of that name goes before a real driver's library, and cannot be loaded.
    (tmp_path / "libnvidia-ml.so.1").write_text("")
    code = (
        "from pathlib import Path\nfrom sitrepd.hardware.nvml import Nvml\n"
        f"print(Nvml.open(sys_root=Path({str(tmp_path)!r})).reason)"
    )
    env = {"LD_LIBRARY_PATH": str(tmp_path)}
    child = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert child.stdout.strip() == reason


def test_a_lost_gpu_is_absent_and_the_others_go_on(nvml_stub: NvmlStub):
    told = nvml_stub.run(
        OPEN + "nvml.gpu_facts()\n"
        "nvml.gpu_samples()\n"
        "control.write_text('lost=3\\n')\n"
        "nvml._lost_after_s = 600\n"
        "say([[asdict(s) for s in nvml.gpu_samples()], [asdict(g) for g in nvml.gpu_facts()], nvml.topology()])"
    )
    samples, facts, topology = told
    lost = "the GPU is lost: the NVIDIA driver can no longer reach it"
    assert [sample["reason"] for sample in samples] == [None, None, None, lost, None, None, None, None]
    assert samples[3]["temperature_c"] is None
    assert samples[4]["temperature_c"] == 34
    assert facts[3]["reason"] == lost
    assert facts[3]["name"] == "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    assert topology[3] == ["?", "?", "?", "X", "?", "?", "?", "?"]
    assert topology[2][0] == "NODE"


def test_a_gpu_that_vanishes_is_remembered_by_uuid_though_the_others_are_renumbered(nvml_stub: NvmlStub):
    told = nvml_stub.run(
        OPEN + "nvml.gpu_facts()\n"
        "control.write_text('vanished=3\\n')\n"
        "nvml.gpu_samples()\n"
        "say([[s.index, s.uuid, s.reason] for s in nvml.gpu_samples()])"
    )
    gone = "the GPU is no longer listed by the NVIDIA driver"
    assert sorted(told) == sorted(
        [[n if n < 3 else n - 1, uuid(n), None] for n in range(8) if n != 3] + [[3, uuid(3), gone]]
    )


def test_a_lost_gpu_comes_back_after_its_reset(nvml_stub: NvmlStub):
    told = nvml_stub.run(
        OPEN + "control.write_text('lost=3\\n')\n"
        "before = nvml.gpu_samples()[3].reason\n"
        "control.write_text('')\n"
        "say([before, nvml.gpu_samples()[3].reason, nvml.gpu_samples()[3].temperature_c])"
    )
    assert told == ["the GPU is lost: the NVIDIA driver can no longer reach it", None, 34]


def test_a_gpu_lost_before_the_start_has_no_uuid(nvml_stub: NvmlStub):
    nvml_stub.set(lost=2)
    told = nvml_stub.run(
        OPEN + "say([[[g.index, g.uuid, g.reason] for g in nvml.gpu_facts()], [s.index for s in nvml.gpu_samples()]])"
    )
    assert told[0][2] == [2, None, "the GPU is lost: the NVIDIA driver can no longer reach it"]
    assert told[1] == [0, 1, 3, 4, 5, 6, 7]


def test_a_driver_that_goes_away_and_comes_back(nvml_stub: NvmlStub):
    told = nvml_stub.run(
        OPEN + "nvml.gpu_samples()\n"
        "control.write_text('all=9\\ninit=9\\n')\n"
        "gone = [[s.uuid, s.reason] for s in nvml.gpu_samples()]\n"
        "reason = nvml.reason\n"
        "control.write_text('')\n"
        "say([gone, reason, [s.reason for s in nvml.gpu_samples()], nvml.reason])"
    )
    assert told[0] == [[uuid(n), "the NVIDIA driver is not loaded"] for n in range(8)]
    assert told[1:] == ["the NVIDIA driver is not loaded", [None] * 8, None]


def test_a_missing_driver_is_not_asked_for_again_at_once(nvml_stub: NvmlStub, tmp_path):
    calls = tmp_path / "calls"
    nvml_stub.set(init=9, log=calls)
    nvml_stub.run(
        "from sitrepd.hardware.nvml import Nvml\nnvml = Nvml.open()\nfor _ in range(5): nvml.gpu_samples()\nsay(0)"
    )
    assert calls.read_text().split() == ["nvmlInitWithFlags"]


def test_processes_by_gpu_with_each_pid_once(nvml_stub: NvmlStub):
    nvml_stub.set(processes__1="4242:88000000000,4300", graphics__1="4242:100,77:2000")
    told = nvml_stub.run(OPEN + "say([[p.index, p.uuid, p.pid, p.used_bytes, p.kind] for p in nvml.gpu_processes()])")
    assert told == [
        [1, uuid(1), 77, 2000, "graphics"],
        [1, uuid(1), 4242, 88_000_000_000, "compute"],
        [1, uuid(1), 4300, None, "compute"],
    ]


def test_topology_of_a_box_with_pcie_only(nvml_stub: NvmlStub):
    nvml_stub.set(gpus=4)
    assert nvml_stub.run(OPEN + "say(nvml.topology())") == [
        ["X", "PXB", "NODE", "NODE"],
        ["PXB", "X", "NODE", "NODE"],
        ["NODE", "NODE", "X", "PXB"],
        ["NODE", "NODE", "PXB", "X"],
    ]


def test_topology_with_nvlink_bridges_and_switches(nvml_stub: NvmlStub):
    nvml_stub.set(gpus=4, nvlinks__0="1,1", nvlinks__1="0,0", nvlinks__2="s,s,s", nvlinks__3="s,s,s")
    assert nvml_stub.run(OPEN + "say(nvml.topology())") == [
        ["X", "NV2", "NODE", "NODE"],
        ["NV2", "X", "NODE", "NODE"],
        ["NODE", "NODE", "X", "NV3"],
        ["NODE", "NODE", "NV3", "X"],
    ]


def test_closing_lets_go_for_good(nvml_stub: NvmlStub, tmp_path):
    calls = tmp_path / "calls"
    nvml_stub.set(gpus=1, log=calls)
    told = nvml_stub.run(OPEN + "nvml.close()\nsay([nvml.reason, [s.reason for s in nvml.gpu_samples()]])")
    assert told == ["closed", ["closed"]]
    assert calls.read_text().split()[-1] == "nvmlShutdown"


def test_the_library_is_loaded_only_when_opened(nvml_stub: NvmlStub):
    assert nvml_stub.run("import sys, sitrepd.hardware.nvml\nsay('pynvml' in sys.modules)") is False
