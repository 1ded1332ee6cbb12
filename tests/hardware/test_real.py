"""What the driver of an H200 answered, call by call, idle and under load, and what is made of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from sitrepd.cli import gpus as printed
from sitrepd.cli import output
from sitrepd.hardware import readings
from sitrepd.hardware.box import described
from sitrepd.hardware.driver import Driver
from sitrepd.hardware.live import LiveHardware, Owned
from sitrepd.hardware.now import GpuNow, gpus_now
from sitrepd.hardware.nvml import Nvml
from sitrepd.hardware.snapshot import see_gpus

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent.parent / "data" / "h200-nvml.json").read_text())
_UUID = "GPU-00000000-0000-4000-8000-000000000000"
_HANDLE = object()

# Of what is asked in several ways, the answer by what stands after the handle.
_BY_ARGUMENTS: dict[str, dict[tuple[Any, ...], str]] = {
    "nvmlDeviceGetMemoryInfo": {(): "memory_v1", (pynvml.nvmlMemory_v2,): "memory_v2"},
    "nvmlDeviceGetClockInfo": {
        (pynvml.NVML_CLOCK_SM,): "sm_clock",
        (pynvml.NVML_CLOCK_MEM,): "memory_clock",
    },
    "nvmlDeviceGetTotalEccErrors": {
        (pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_VOLATILE_ECC): "ecc_corrected",
        (pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC): "ecc_uncorrected",
    },
    "nvmlDeviceGetTemperature": {(pynvml.NVML_TEMPERATURE_GPU,): "temperature"},
    "nvmlDeviceGetNvLinkState": {(0,): "nvlink_state_0"},
}
_OF_CALL = {told["call"]: name for name, told in RECORDED["calls"].items()}


class Player:
    """Stands in for the bindings of the driver: a call that was not recorded fails the test."""

    NVMLError = pynvml.NVMLError

    def __init__(self, when: str, without: tuple[str, ...] = ()) -> None:
        self._when = when
        self._without = without
        self.asked: list[str] = []

    def __getattr__(self, call: str) -> Callable[..., Any]:
        system: dict[str, Any] = {
            "nvmlSystemGetDriverVersion": RECORDED["driver"],
            "nvmlSystemGetCudaDriverVersion_v2": RECORDED["cuda"],
            "nvmlDeviceGetCount": RECORDED["gpus"],
            "nvmlDeviceGetHandleByIndex": _HANDLE,
            "nvmlShutdown": None,
        }
        if call in system:
            return lambda *_: system[call]
        return lambda handle, *args: self._answer(call, handle, args)

    def _answer(self, call: str, handle: object, args: tuple[Any, ...]) -> Any:
        assert handle is _HANDLE
        if call == "nvmlDeviceGetFieldValues":
            assert args == ([pynvml.NVML_FI_DEV_MEMORY_TEMP],)
            name = "memory_temperature"
        else:
            name = _BY_ARGUMENTS[call][args] if call in _BY_ARGUMENTS else _OF_CALL[call]
        self.asked.append(name)
        told = RECORDED["calls"][name][self._when]
        if "error" in told or name in self._without:
            raise pynvml.NVMLError(told.get("error", pynvml.NVML_ERROR_FUNCTION_NOT_FOUND))
        return _structure(told["value"])


def _structure(value: Any) -> Any:
    if isinstance(value, dict):
        return SimpleNamespace(**{name: _structure(one) for name, one in value.items()})
    return [_structure(one) for one in value] if isinstance(value, list) else value


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Player], Nvml]:
    def opening(player: Player) -> Nvml:
        monkeypatch.setattr(Driver, "open", lambda _root: Driver(player))  # type: ignore[arg-type]
        return Nvml.open(sys_root=tmp_path)

    return opening


Opened = Callable[[Player], Nvml]


def test_its_facts(opened: Opened) -> None:
    seen = see_gpus(opened(Player("idle")))
    assert [asdict(gpu) for gpu in seen.facts] == [
        {
            "index": 0,
            "name": "NVIDIA H200",
            "uuid": _UUID,
            "pci_bus_id": "0000:00:06.0",
            "pcie": "Gen5 x16",
            "architecture": "Hopper",
            "compute_capability": "9.0",
            "memory_bytes": 150754820096,
            "vbios": "96.00.A5.00.1A",
            "pcie_generation": 5,
            "pcie_generation_max": 5,
            "pcie_width": 16,
            "pcie_width_max": 16,
            "power_limit_w": 700.0,
            "power_limit_default_w": 700.0,
            "power_limit_min_w": 200.0,
            "power_limit_max_w": 700.0,
            "ecc": True,
            "mig": False,
            "persistence": True,
            "numa_node": None,
            "cpu_affinity": None,
            "reason": None,
        }
    ]
    told = {"gpus": [asdict(gpu) for gpu in seen.facts], "driver": seen.driver, "cuda_driver": seen.cuda_driver}
    assert described(told) == [
        (
            "GPUs",
            "Hopper, compute capability 9.0, PCIe Gen5 x16, power limit 700 W, ECC on, MIG off, persistence mode on, "
            "VBIOS 96.00.A5.00.1A, driver 580.159.04, CUDA up to 13.0",
        )
    ]
    assert seen.reason is None


def _now(nvml: Nvml) -> list[GpuNow]:
    live = LiveHardware(
        reason=None,
        facts=tuple(nvml.gpu_facts()),
        samples=tuple(nvml.gpu_samples()),
        processes=tuple(Owned(process=process) for process in nvml.gpu_processes()),
    )
    return gpus_now(live)


_SAME = {
    "index": 0, "name": "NVIDIA H200", "uuid": _UUID, "memory_reserved_bytes": 644939776,
    "memory_total_bytes": 150754820096, "power_limit_w": 700.0, "memory_clock_mhz": 3201, "perf_state": "P0",
    "pcie": "Gen5 x16", "pcie_width": 16, "ecc_corrected": 0, "ecc_uncorrected": 0, "remapped_rows": 0,
    "remap_pending": False, "remap_failed": False, "pcie_replays": 0,
}  # fmt: skip


def _process(pid: int, used: int) -> dict[str, Any]:
    return {"pid": pid, "kind": "compute", "used_bytes": used}


def test_idle(opened: Opened) -> None:
    (gpu,) = _now(opened(Player("idle")))
    assert gpu.model_dump(exclude_none=True) == _SAME | {
        "state": "idle", "utilization_percent": 0, "memory_utilization_percent": 0, "memory_used_bytes": 1697447936,
        "power_w": 122.008, "temperature_c": 35, "memory_temperature_c": 38, "sm_clock_mhz": 1980, "throttled": False,
        "throttle": [], "processes": [_process(622, 1688207360)],
    }  # fmt: skip


def test_under_load_its_power_cap_holds_the_clock_down(opened: Opened) -> None:
    (gpu,) = _now(opened(Player("load")))
    assert gpu.model_dump(exclude_none=True) == _SAME | {
        "state": "busy", "why": "power cap", "utilization_percent": 99, "memory_utilization_percent": 29,
        "memory_used_bytes": 1020067840, "power_w": 631.101, "temperature_c": 53, "memory_temperature_c": 47,
        "sm_clock_mhz": 1740, "throttled": True, "throttle": ["power cap"], "processes": [_process(747, 1010827264)],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("when", "line"),
    [
        ("idle", "0    idle   NVIDIA H200  0 %   1.6 GiB of 140.4 GiB  122 of 700 W  35 °C  1980 MHz  ? (pid 622)"),
        ("load", "0    busy   NVIDIA H200  99 %  972.8 MiB of 140.4 GiB  631 of 700 W  53 °C  1740 MHz  power cap  "
                 "? (pid 747)"),
    ],
)  # fmt: skip
def test_as_it_is_printed(opened: Opened, capsys: pytest.CaptureFixture[str], when: str, line: str) -> None:
    nvml = opened(Player(when))
    gpus = [gpu.model_dump(mode="json", exclude_none=True) for gpu in _now(nvml)]
    output.table(gpus, printed.COLUMNS, "")
    assert capsys.readouterr().out.splitlines()[1] == line
    at = datetime(2026, 12, 1, 13, 27, 42, tzinfo=UTC).isoformat()
    told = {"at": at, "driver": nvml.driver_version, "cuda_driver": nvml.cuda_driver_version}
    assert printed.headline(told).endswith(", driver 580.159.04, CUDA 13.0")


def test_it_has_no_nvlink(opened: Opened) -> None:
    driver = Driver(Player("idle"))  # type: ignore[arg-type]
    assert readings.nvlinks(driver, _HANDLE) == []
    assert driver.unsupported
    assert driver.last_error == "the NVIDIA driver does not support the query"
    assert opened(Player("idle")).topology() == (("X",),)


def test_an_older_driver_counts_the_reserve_as_used(opened: Opened) -> None:
    """And has another name for what holds the clocks down."""
    (gpu,) = _now(opened(Player("load", without=("memory_v2", "event_reasons"))))
    assert (gpu.memory_used_bytes, gpu.memory_reserved_bytes) == (1020067840 + 644939776, None)
    assert gpu.throttle == ["power cap"]


@pytest.mark.parametrize("when", ["idle", "load"])
def test_what_is_asked_each_second_cost_the_driver_little(opened: Opened, when: str) -> None:
    player = Player(when)
    nvml = opened(player)
    nvml.gpu_samples()
    first = set(player.asked)
    player.asked.clear()
    nvml.gpu_samples()
    costs = {name: RECORDED["calls"][name][when]["us"] for name in player.asked}
    assert len(costs) == len(player.asked) == 8
    assert sum(costs.values()) < 30
    assert {"memory_temperature", "ecc_corrected", "ecc_uncorrected", "remapped_rows", "pcie_replays"} <= first
