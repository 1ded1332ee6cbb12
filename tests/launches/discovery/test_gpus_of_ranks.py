"""Eight ranks on eight GPUs: which rank holds what, on which GPU, and what stays when their server is killed."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import psutil
import pytest
from tests.hardware.conftest import nvml_library, nvml_stub
from tests.helpers import free_port, wait_until
from tests.launches.discovery.servers import Servers, servers_now, until_followed, watching
from tests.stubs import NvmlStub

__all__ = ["nvml_library", "nvml_stub"]
pytestmark = [pytest.mark.slow, pytest.mark.gcc]
GIB = 1 << 30


def ranks_of(pid: int) -> list[int]:
    """The pids of the ranks in their order."""
    titles = {child.cmdline()[0]: child.pid for child in psutil.Process(pid).children()}
    numbered = {int(found[1]): titles[title] for title in titles if (found := re.search(r"_TP(\d+)", title))}
    return [numbered[rank] for rank in sorted(numbered)]


def test_each_rank_is_on_its_gpu(servers: Servers, nvml_stub: NvmlStub, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in nvml_stub.env.items():
        monkeypatch.setenv(name, value)
    nvml_stub.set(gpus=8)
    with watching(servers, sample_s=0.2, sample_idle_s=0.2, gpu_processes_s=0.3) as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        words = servers.argv(free_port(), "--tp-size", "8")
        servers.shell(f"nohup {' '.join(words)} > s.log 2>&1 &", env={"FAKE_RANKS": "8", "FAKE_S": "2"})
        pid = servers.main()
        ranks = wait_until(lambda: found if len(found := ranks_of(pid)) == 8 else None)
        assert ranks is not None
        held = {f"processes__{gpu}": f"{rank}:{(80 + gpu) * GIB}" for gpu, rank in enumerate(ranks)}
        nvml_stub.set(gpus=8, **held, **{f"memory_used__{gpu}": (81 + gpu) * GIB for gpu in range(8)})
        launch = until_followed(daemon, pid, "ready")
        _shown(daemon, launch["id"], ranks)
        claims = _of(launch["id"], daemon.client.get("/api/v1/claims").json()["data"])
        assert {one["resource"]: one["numbers"] for one in claims}["gpu"] == list(range(8))
        os.kill(pid, signal.SIGKILL)
        (orphan,) = wait_until(lambda: _of(launch["id"], servers_now(daemon)["orphans"]))
        assert (orphan["launch"], sorted(orphan["pids"])) == (launch["id"], sorted(ranks))
        assert orphan["names"] == [f"sglang::scheduler_TP{rank}" for rank in range(8)]
        assert orphan["gpu_memory_bytes"] == sum((80 + gpu) * GIB for gpu in range(8))


def _shown(daemon: Any, launch: str, ranks: list[int]) -> None:
    def told() -> list[tuple[str, int, int | None]]:
        (server,) = _of(launch, servers_now(daemon)["servers"])
        return [(one["title"], one["pid"], one.get("gpu_memory_bytes")) for one in server["ranks"]]

    wanted = [(f"sglang::scheduler_TP{gpu}", rank, (80 + gpu) * GIB) for gpu, rank in enumerate(ranks)]
    assert wait_until(lambda: told() == wanted), told()

    def gpus() -> list[list[tuple[int, str | None]]]:
        listed = daemon.client.get("/api/v1/gpus").json()["gpus"]
        return [[(one["pid"], one.get("launch")) for one in gpu["processes"]] for gpu in listed]

    assert wait_until(lambda: gpus() == [[(rank, launch)] for rank in ranks]), gpus()
    used = [gpu["memory_used_bytes"] for gpu in daemon.client.get("/api/v1/gpus").json()["gpus"]]
    assert used == [(81 + gpu) * GIB for gpu in range(8)]


def _of(launch: str, listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Other servers may run on this machine."""
    return [one for one in listed if one.get("launch") == launch]
