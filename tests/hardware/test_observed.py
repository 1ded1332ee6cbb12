"""A real daemon observes the GPUs that a stub of the driver's library plays."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from tests.daemons import Daemon, running_daemon
from tests.hardware.conftest import no_library
from tests.helpers import wait_until
from tests.stubs import NvmlStub

from sitrepd.hardware.driver import without_library

pytestmark = pytest.mark.slow  # each test starts daemons of its own

FAST = {"sample_s": 0.1, "sample_idle_s": 0.2, "gpu_processes_s": 0.2}


def get(daemon: Daemon, path: str) -> Any:
    answer = daemon.client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def gpus(daemon: Daemon) -> list[dict[str, Any]]:
    """Once they were sampled."""
    wait_until(lambda: sampled(daemon))
    found: list[dict[str, Any]] = get(daemon, "gpus")["gpus"]
    return found


def sampled(daemon: Daemon) -> bool:
    return "at" in get(daemon, "gpus")


def told(daemon: Daemon, *kinds: str) -> list[dict[str, Any]]:
    return [event for event in get(daemon, "events") if event["kind"] in kinds]


def times(daemon: Daemon) -> list[float]:
    """When GPU 0 was sampled, as stored."""
    with closing(sqlite3.connect(daemon.data_dir / "sitrep.db")) as db:
        rows = db.execute("SELECT at FROM gpu_sample WHERE gpu = 0 ORDER BY at").fetchall()
    return [at / 1000 for (at,) in rows]


def gap(found: list[float]) -> float:
    """Seconds from one sample to the next, as a rule."""
    return median(b - a for a, b in pairwise(found))


def launch(daemon: Daemon, *argv: str) -> dict[str, Any]:
    answer = daemon.client.post("/api/v1/launches", json={"argv": argv, "cwd": "/"})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_machine_without_a_gpu_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with no_library(tmp_path, monkeypatch), running_daemon(tmp_path / "store") as daemon:
        wait_until(lambda: sampled(daemon))
        now = get(daemon, "gpus")
        assert now["gpus"] == []
        assert now["reason"] == without_library(Path("/sys"))
        host = get(daemon, "hosts/current")
        assert host["provenance"] == "observed"
        assert "session" not in host
        assert host["cpu_count"] == os.cpu_count()
        assert host["note"] == now["reason"]
        missing = daemon.client.get("/api/v1/gpus/0/samples")
        assert missing.status_code == 404
        assert missing.json()["detail"] == f"This host has no GPU 0: {now['reason']}."
        daemon.restart()
        wait_until(lambda: sampled(daemon))
        assert get(daemon, "hosts")["count"] == 1
        assert get(daemon, "hosts/current")["id"] == host["id"]
        assert len(told(daemon, "host.changed")) == 1


@pytest.mark.gcc
def test_samples_are_closer_while_a_launch_is_alive(gpu_daemon: Callable[..., Daemon], nvml_stub: NvmlStub):
    daemon = gpu_daemon(sample_s=0.1, sample_idle_s=1.0, gpu_processes_s=0.2)
    assert [gpu["power_w"] for gpu in gpus(daemon)] == [82.0] * 8
    wait_until(lambda: len(times(daemon)) >= 4)
    idle = times(daemon)
    code = "import subprocess, time; subprocess.Popen(['sleep', '60']); time.sleep(60)"
    started = launch(daemon, sys.executable, "-c", code)
    children = Path(f"/proc/{started['pid']}/task/{started['pid']}/children")
    [child] = wait_until(lambda: children.read_text().split())
    nvml_stub.set(processes__5=f"{child}:88000000000,{os.getpid()}:1000")
    wait_until(lambda: len(times(daemon)) >= len(idle) + 25)
    busy = times(daemon)[-15:]
    assert gap(busy) < gap(idle)

    def listed() -> dict[int, dict[str, Any]]:
        return {process["pid"]: process for process in get(daemon, "gpus")["gpus"][5]["processes"]}

    found = wait_until(listed)
    assert found[int(child)] == {
        "pid": int(child),
        "name": "sleep",
        "kind": "compute",
        "used_bytes": 88_000_000_000,
        "launch": started["id"],
    }
    assert "launch" not in found[os.getpid()]
    daemon.client.post(f"/api/v1/launches/{started['id']}/stop", json={"grace_s": 1, "wait_s": 10})
    ended = len(times(daemon))
    wait_until(lambda: len(times(daemon)) >= ended + 6)
    assert gap(times(daemon)[-4:]) > gap(busy)


@pytest.mark.gcc
def test_a_daemon_that_is_killed_loses_ten_seconds_of_samples_at_most(gpu_daemon: Callable[..., Daemon]):
    """Its next start reads on from there, and what was sealed before is there as well."""
    daemon = gpu_daemon(sample_idle_s=1.0)
    gpus(daemon)
    wait_until(lambda: len(times(daemon)) >= 9)
    seen = datetime.fromisoformat(get(daemon, "gpus")["at"]).timestamp()
    daemon.end(signal.SIGKILL)
    stored = times(daemon)
    assert stored[-1] > seen - 10
    assert gap(stored) == pytest.approx(1, abs=0.2)
    daemon.start()
    wait_until(lambda: len(times(daemon)) > len(stored))
    assert times(daemon)[: len(stored)] == stored
    answer = get(daemon, "gpus/0/samples?points=10")
    assert sum(answer["samples"]) > len(stored)


@pytest.mark.gcc
def test_what_changed_between_two_starts_is_named(gpu_daemon: Callable[..., Daemon], nvml_stub: NvmlStub):
    daemon = gpu_daemon()
    assert len(gpus(daemon)) == 8
    [first] = told(daemon, "host.changed")
    assert first["data"]["first"] is True
    host = get(daemon, "hosts/current")
    assert [gpu["pcie"] for gpu in host["gpus"]] == ["Gen5 x16"] * 8
    assert host["interconnect"] == "PCIe"
    answer = daemon.client.patch(f"/api/v1/hosts/{host['id']}", json={"interconnect": "PCIe, two root complexes"})
    assert answer.status_code == 200
    nvml_stub.set(pcie_width__3=8)
    daemon.restart()
    changed = wait_until(
        lambda: [event for event in told(daemon, "host.changed") if event["data"].get("fields") == ["gpus"]]
    )
    assert [event["data"] for event in changed] == [
        {
            "fields": ["gpus"],
            "text": "GPU 3: pcie width is 8, was 16",
            "changes": [{"field": "gpus", "what": "GPU 3: pcie width", "before": 16, "after": 8}],
        }
    ]
    assert get(daemon, "hosts/current")["interconnect"] == "PCIe, two root complexes"


@pytest.mark.gcc
def test_a_lost_gpu_is_told_once_and_the_others_go_on(gpu_daemon: Callable[..., Daemon], nvml_stub: NvmlStub):
    daemon = gpu_daemon(**FAST, nvml_timeout_s=60)
    uuid = gpus(daemon)[3]["uuid"]
    nvml_stub.set(lost=3, power_mw=91_000)
    wait_until(lambda: told(daemon, "host.gpu_lost"))
    stored = len(times(daemon))
    wait_until(lambda: len(times(daemon)) > stored + 4)
    now = get(daemon, "gpus")["gpus"]
    assert now[3]["reason"] == "the GPU is lost: the NVIDIA driver can no longer reach it"
    assert "power_w" not in now[3]
    assert now[4]["power_w"] == 91.0
    [lost] = told(daemon, "host.gpu_lost")
    assert lost["data"] == {
        "gpu": 3,
        "uuid": uuid,
        "name": "NVIDIA RTX PRO 6000 Blackwell Server Edition",
        "reason": now[3]["reason"],
    }
    wait_until(lambda: "GPU 3: the GPU is lost" in get(daemon, "hosts/current").get("note", ""))
    nvml_stub.set()
    [back] = wait_until(lambda: told(daemon, "host.gpu_back"))
    assert back["data"]["uuid"] == uuid
    wait_until(lambda: "note" not in get(daemon, "hosts/current"))
    samples = get(daemon, "gpus/3/samples")
    assert set(samples["metrics"]["power_w"]["max"]) == {82.0}
    assert told(daemon, "host.driver_lost", "host.driver_back") == []


@pytest.mark.gcc
def test_a_driver_that_hangs_is_told_once_survived_and_not_waited_for(
    gpu_daemon: Callable[..., Daemon], nvml_stub: NvmlStub
):
    daemon = gpu_daemon(**FAST, nvml_timeout_s=0.6)
    gpus(daemon)
    nvml_stub.set(hang__nvmlDeviceGetPowerUsage__2=3)
    wait_until(lambda: told(daemon, "host.driver_lost"))
    nvml_stub.set()
    wait_until(lambda: told(daemon, "host.driver_back"))
    wait_until(lambda: "reason" not in get(daemon, "gpus"))
    nvml_stub.set(hang__nvmlDeviceGetPowerUsage__2=600)
    silent = "the NVIDIA driver has not answered nvmlDeviceGetPowerUsage for "
    wait_until(lambda: get(daemon, "gpus").get("reason", "").startswith(silent))
    wait_until(lambda: "note" in get(daemon, "hosts/current"))
    once = len(told(daemon, "host.driver_lost"))
    assert once >= 2
    now = wait_until(lambda: (seen := get(daemon, "gpus"))["reason"] not in (silent + "0 s", silent + "1 s") and seen)
    assert len(told(daemon, "host.driver_lost")) == once
    assert now["reason"].startswith(silent)
    assert len(now["gpus"]) == 8
    host = get(daemon, "hosts/current")
    assert host["note"] == "the NVIDIA driver does not answer"
    assert len(host["gpus"]) == 8
    assert daemon.end() == 0


@pytest.mark.gcc
def test_a_driver_that_never_opens_keeps_nothing_else_from_working(
    gpu_daemon: Callable[..., Daemon], nvml_stub: NvmlStub
):
    nvml_stub.set(hang__nvmlInit=600)
    daemon = gpu_daemon(**FAST, nvml_timeout_s=0.1)
    host = wait_until(lambda: get(daemon, "hosts/current") if "cpu_count" in get(daemon, "hosts/current") else None)
    [lost] = wait_until(lambda: told(daemon, "host.driver_lost"))
    assert lost["subject"] == host["id"]
    assert get(daemon, "gpus")["gpus"] == []
    assert launch(daemon, "/bin/sleep", "30")["host"] == host["id"]
