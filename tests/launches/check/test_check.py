"""Checks through the application and a real daemon: what is said before a launch, and that nothing waits for it."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import Session
from tests.cli.conftest import shared
from tests.cli.running import Sitrep
from tests.daemons import Daemon
from tests.hardware.conftest import gpu_daemon, nvml_library, nvml_stub
from tests.helpers import free_port, lives, wait_until
from tests.launches.check.subjects import CONFIG, GIB, line, model, server
from tests.stubs import NvmlStub

from sitrepd.launches.models import Launch

__all__ = ["gpu_daemon", "nvml_library", "nvml_stub", "shared"]
FAST = {"sample_s": 0.1, "sample_idle_s": 0.2, "gpu_processes_s": 0.2}


def check(client: Any, command: str, **body: Any) -> dict[str, list[dict[str, Any]]]:
    """What was said, by the name of the check."""
    answer = client.post("/api/v1/launches/check", json={"command": command, "cwd": os.getcwd(), **body})
    assert answer.status_code == 200, answer.text
    found: dict[str, list[dict[str, Any]]] = {}
    for one in answer.json()["checks"]:
        found.setdefault(one["name"], []).append(one)
    return found


def test_a_taken_port_is_named_with_a_free_one(client: TestClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        [one] = check(client, line("--port", str(port)))["port"]
        assert one["level"] == "error"
        assert f"Port {port} is taken by pid {os.getpid()}" in one["text"]
        assert "--port" in one["fix"]
    [one] = check(client, line("--port", str(free_port())))["port"]
    assert one["level"] == "ok"


@pytest.mark.parametrize(
    ("host", "said"), [("192.0.2.7", "no address 192.0.2.7"), ("no-such-host.invalid", "no-such-host.invalid has no")]
)
def test_an_address_that_this_machine_does_not_have_is_told(client: TestClient, host: str, said: str) -> None:
    [one] = check(client, line("--host", host, "--port", str(free_port())))["port"]
    assert (one["level"], said in one["text"]) == ("error", True), one
    assert "--host 127.0.0.1" in one["fix"]


def test_what_cannot_be_started_at_all_is_one_error(client: TestClient) -> None:
    found = check(client, "no-such-program --port 1")
    assert list(found) == ["command"]
    assert "no-such-program" in found["command"][0]["text"]


def test_errors_come_first_and_nothing_is_started(client: TestClient, tmp_path: Path) -> None:
    body = {"command": line("--port", str(free_port()), model=tmp_path / "none"), "cwd": str(tmp_path)}
    checks = client.post("/api/v1/launches/check", json=body).json()["checks"]
    levels = [one["level"] for one in checks]
    assert levels == sorted(levels, key=["error", "warning", "note", "ok"].index)
    assert {one["name"] for one in checks if one["level"] == "error"} == {"model", "interpreter"}
    assert client.get("/api/v1/launches").json()["count"] == 0


def test_a_log_that_cannot_be_written(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "x.log").mkdir()
    [one] = check(client, line(), log_path=str(tmp_path / "x.log"))["log"]
    assert one["level"] == "error"
    [one] = check(client, line(), log_path=str(tmp_path / "y.log"))["log"]
    assert one["level"] == "ok"


def fail(client: Any, command: str, **more: Any) -> None:
    body = {"start": False, "command": command, "state": "failed", "ended_at": "2026-01-01T00:00:00Z"}
    client.post("/api/v1/launches", json=body | more).raise_for_status()


def finding(client: Any, **body: Any) -> None:
    client.post("/api/v1/findings", json={"status": "confirmed", **body}).raise_for_status()


def test_the_same_again_is_told_with_what_came_of_it(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": "s"})
    fail(client, "NCCL_P2P_LEVEL=SYS " + line("--tp-size", "8", "--mem-fraction-static", "0.90", "--port", "1234"))
    finding(
        client, kind="root_cause", title="No memory for the KV cache", evidence=["L1"],
        detail="The weights take it all. Fix: --mem-fraction-static 0.94",
    )  # fmt: skip
    again = "NCCL_P2P_LEVEL=SYS " + line("--mem-fraction-static=0.9", "--tensor-parallel-size", "8", "--port", "999")
    [one] = check(client, again)["tried"]
    assert one["level"] == "warning"
    assert "as L1: No memory for the KV cache" in one["text"]
    assert one["fix"] == "--mem-fraction-static 0.94"
    assert one["ids"] == ["L1", "F1"]
    for other in (again.replace("0.9", "0.91", 1), again.replace("SYS", "PHB"), again.replace("/kimi", "/other")):
        assert "tried" not in check(client, other), other


@pytest.mark.parametrize(
    ("state", "more", "level"),
    [
        ("exited", {"exit_signal": 15}, None),
        ("exited", {"exit_code": 0}, None),
        ("lost", {}, None),
        ("failed", {"exit_signal": 1}, "note"),
        ("failed", {"exit_code": 124}, "note"),
        ("failed", {"exit_code": 1}, "warning"),
    ],
)
def test_what_was_ended_from_outside_has_not_failed(
    client: TestClient, state: str, more: dict[str, Any], level: str | None
) -> None:
    client.post("/api/v1/sessions", json={"name": "s"})
    fail(client, line("--tp-size", "8"), state=state)
    client.app.state.runtime.store.write(lambda db: _seen(db, more))  # type: ignore[attr-defined]
    found = check(client, line("--tp-size", "8")).get("tried", [])
    assert [one["level"] for one in found] == ([level] if level else [])
    assert all(("was ended from outside" in one["text"]) == (level == "note") for one in found)


def _seen(db: Session, more: dict[str, Any]) -> None:
    row = db.get(Launch, 1)
    assert row is not None
    row.watched = True
    for name, value in more.items():
        setattr(row, name, value)
    db.add(row)


def test_what_became_ready_later_is_not_held_against_it(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": "s"})
    fail(client, line("--tp-size", "8"))
    fail(client, line("--tp-size", "8"), state="ready", ready_at="2026-01-01T00:00:00Z")
    [one] = check(client, line("--tp-size", "8"))["tried"]
    assert (one["level"], one["text"]) == ("ok", "The same became ready as L2.")


def test_a_rejected_option_is_told_with_its_reason(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": "s"})
    fail(client, line("--tp-size", "8", "--page-size", "64"), state="exited")
    client.post("/api/v1/benchmarks", json={"name": "b", "launch": "L1"})
    finding(client, kind="rejected", title="Large pages", reason="Slower by 4 %.", evidence=["B1"])
    finding(client, kind="rejected", title="FP8 KV cache", reason="Accept rate falls by half.")
    finding(client, kind="rejected", title="Torch compile", reason="Crashes.", status="refuted")
    found = check(client, line("--tp-size", "8", "--page-size", "64"))["rejected"]
    assert [one["ids"] for one in found] == [["F1", "L1"]]
    assert "Slower by 4 %." in found[0]["text"]
    [one] = check(client, line("--kv-cache-dtype", "fp8_e4m3", "--enable-torch-compile"))["rejected"]
    assert one["ids"] == ["F2"]
    assert "Accept rate falls by half." in one["text"]
    assert "--kv-cache-dtype fp8_e4m3" in one["text"]
    assert "rejected" not in check(client, line("--kv-cache-dtype", "bf16"))


def test_a_launch_is_warned_of_but_not_held_back(daemon: Daemon, tmp_path: Path) -> None:
    """Its interpreter, which the check asks, takes long; the launch takes a second."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/bash\ncase "$*" in *sitrep-flags*) exec sleep 600;; esac\nexec {sys.executable} -c "print(1)"\n'
    )
    python.chmod(0o755)
    command = shlex.join(server("--speculative-num-steps", "3", python=str(python)))
    answer = daemon.client.post("/api/v1/launches", json={"command": command, "cwd": str(tmp_path)})
    assert answer.status_code == 201
    told = {one["name"]: one for one in answer.json()["checks"]}
    assert told["model"]["level"] == "error"
    assert "no effect" in told["speculative"]["text"]
    assert "checks" not in daemon.client.get("/api/v1/launches/L1").json()


def test_the_command_line_says_it_by_its_exit_status(shared: Sitrep, tmp_path: Path) -> None:
    port = str(free_port())
    bad = shared("check", "--", *server("--port", port, model=tmp_path / "none"))
    assert bad.code == 4
    assert f"error:   The model {tmp_path / 'none'} is no folder" in bad.out
    good = shared("check", "--all", "--", sys.executable, "-m", "http.server", port).ok()
    assert "Nothing speaks against it." in good.out
    told = shared("check", "--json", "--", *server("--port", port, model=tmp_path / "none"))
    assert told.code == 4
    assert '"checks"' in told.out


@pytest.mark.slow
@pytest.mark.gcc
def test_gpus_that_are_too_few_full_or_taken(
    gpu_daemon: Callable[..., Daemon], nvml_stub: NvmlStub, tmp_path: Path
) -> None:
    stray = os.getpid()
    nvml_stub.set(gpus=2, processes__0=f"{stray}:{60 * GIB}", memory_used__0=str(60 * GIB))
    daemon = gpu_daemon(**FAST)
    wait_until(lambda: daemon.client.get("/api/v1/gpus").json().get("at"))
    target = model(tmp_path / "m", (100 * GIB, 100 * GIB), CONFIG, holes=True)
    wait_until(lambda: "leftovers" in check(daemon.client, line("--tp-size", "2", model=target)))
    found = check(daemon.client, line("--tp-size", "4", model=target))
    assert found["gpu_count"][0]["level"] == "error"
    assert "tp 4 wants 4 GPUs; 2 of 2 can be seen" in found["gpu_count"][0]["text"]
    assert found["gpu_count"][0]["fix"].startswith("Write --tp-size 2")
    one = wait_until(
        lambda: [
            x for x in check(daemon.client, line("--tp-size", "2", model=target))["leftovers"] if x["level"] != "ok"
        ]
    )[0]
    assert one["level"] == "warning"
    assert f"pid {stray}" in one["text"]
    assert "60.0 GiB of GPU 0 and belongs to no launch" in one["text"]
    assert one["fix"].endswith(f"kill {stray}")
    [memory] = check(daemon.client, line("--tp-size", "2", model=target))["memory"]
    assert (memory["level"], "does not fit" in memory["text"]) == ("error", True)
    visible = check(daemon.client, line("--tp-size", "2", model=target), env={"CUDA_VISIBLE_DEVICES": "1"})
    assert "(CUDA_VISIBLE_DEVICES=1)" in visible["gpu_count"][0]["text"]


# Leaves a child that ends when nobody wants it any more.
_PARENT = """
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path("child.new").write_text(str(child.pid))
pathlib.Path("child.new").rename("child.pid")
time.sleep(600)
"""


@pytest.mark.gcc
@pytest.mark.slow
def test_what_a_killed_launch_left_on_a_gpu_is_told_with_the_command_that_ends_it(
    gpu_daemon: Callable[..., Daemon], nvml_stub: NvmlStub, tmp_path: Path
) -> None:
    nvml_stub.set(gpus=2)
    daemon = gpu_daemon(**FAST, discover_s=0.3)
    daemon.client.post("/api/v1/sessions", json={"name": "s"}).raise_for_status()
    body = {"argv": [sys.executable, "-c", _PARENT], "cwd": str(tmp_path)}
    parent = daemon.client.post("/api/v1/launches", json=body).json()["pid"]
    wait_until((tmp_path / "child.pid").exists)
    child = int((tmp_path / "child.pid").read_text())
    nvml_stub.set(gpus=2, processes__1=f"{child}:{40 * GIB}", memory_used__1=str(40 * GIB))
    gpu = wait_until(lambda: daemon.client.get("/api/v1/gpus").json()["gpus"][1]["processes"])
    assert (gpu[0]["pid"], gpu[0]["launch"]) == (child, "L1")

    os.kill(parent, signal.SIGKILL)
    [one] = wait_until(lambda: daemon.client.get("/api/v1/servers").json()["orphans"])
    assert (one["pids"], one["launch"], one["gpu_memory_bytes"]) == ([child], "L1", 40 * GIB)
    [told] = check(daemon.client, line("--tp-size", "2"))["leftovers"]
    assert told["level"] == "warning"
    assert f"pid {child} " in told["text"]
    assert "holds 40.0 GiB of GPU 1 and was left by L1, which has ended" in told["text"]
    assert told["fix"].endswith(f"kill {child}")
    subprocess.run(["sh", "-c", one["command"]], check=True)
    wait_until(lambda: not lives(child))
    nvml_stub.set(gpus=2, processes__1="", memory_used__1="0")
    wait_until(lambda: daemon.client.get("/api/v1/servers").json()["orphans"] == [])
