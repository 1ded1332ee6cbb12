"""Claims by hand and by launches: who is warned of what, and when they end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import typer
from fastapi.testclient import TestClient
from tests.cli.conftest import shared
from tests.cli.running import Sitrep
from tests.daemons import Daemon
from tests.hardware.conftest import gpu_daemon, nvml_library, nvml_stub
from tests.helpers import free_port, wait_until
from tests.stubs import NvmlStub

from sitrepd.claims.models import Claim
from sitrepd.claims.overlap import duration, ranges, said
from sitrepd.claims.service import why_over
from sitrepd.cli.claims import duration_of, numbers_of

__all__ = ["gpu_daemon", "nvml_library", "nvml_stub", "shared"]
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def claim(client: Any, session: str | None = None, **body: Any) -> dict[str, Any]:
    headers = {"X-Sitrep-Session": session} if session else {}
    answer = client.post("/api/v1/claims", json={"resource": "gpu", "numbers": [0, 1], **body}, headers=headers)
    assert answer.status_code == 201, answer.text
    told: dict[str, Any] = answer.json()
    return told


def held(client: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/api/v1/claims").json()["data"]
    return found


def sessions(client: Any, *names: str) -> None:
    for name in names:
        client.post("/api/v1/sessions", json={"name": name}).raise_for_status()


def test_a_claim_without_an_end_lasts_two_hours(client: TestClient) -> None:
    told = claim(client, owner="anna", why="profiling")
    until = datetime.fromisoformat(told["until"])
    assert timedelta(minutes=119) < until - datetime.now(UTC) <= timedelta(hours=2)
    assert (told["id"], told["active"], told["conflicts"]) == ("Q1", True, [])
    assert held(client) == [told]


def test_what_others_have_claimed_is_named_with_the_time_left(client: TestClient) -> None:
    sessions(client, "first", "second")
    claim(client, "S1", numbers=[0, 1, 2, 3], owner="anna", why="profiling")
    again = claim(client, "S1", numbers=[0], owner="anna")
    assert again["conflicts"] == []
    told = claim(client, "S2", numbers=[2, 3, 4], owner="ben")
    [conflict] = told["conflicts"]
    assert conflict.startswith("GPUs 2-3 are claimed by anna (S1) until ")
    assert "1 h 59 min left (Q1: profiling)" in conflict
    assert claim(client, "S2", resource="port", numbers=[2, 3], owner="ben")["conflicts"] == []


def test_a_claim_is_ended_once(client: TestClient) -> None:
    claim(client)
    ended = client.post("/api/v1/claims/Q1/end").json()
    assert (ended["active"], "ended_at" in ended) == (False, True)
    assert held(client) == []
    assert client.get("/api/v1/claims", params={"ended": True}).json()["data"] == [ended]
    again = client.post("/api/v1/claims/Q1/end")
    assert (again.status_code, "has ended already" in again.json()["detail"]) == (409, True)


def test_a_claim_is_made_longer(client: TestClient) -> None:
    claim(client)
    told = client.patch("/api/v1/claims/Q1", json={"until": "2099-01-01T00:00:00Z", "why": "more"}).json()
    assert (told["until"], told["why"]) == ("2099-01-01T00:00:00Z", "more")


@pytest.mark.parametrize(
    "body",
    [
        {"numbers": []},
        {"resource": "disk"},
        {"resource": "port", "numbers": [70000]},
        {"pid": 2**22 + 1},
        {"until": "9999-12-31T23:00:00-14:00"},
    ],
)
def test_claims_that_make_no_sense_are_refused(client: TestClient, body: dict[str, Any]) -> None:
    answer = client.post("/api/v1/claims", json={"resource": "gpu", "numbers": [1], **body})
    assert answer.status_code == 422
    assert held(client) == []


@pytest.mark.slow
def test_a_claim_ends_with_its_time_and_with_its_process(client: TestClient) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert "until" not in claim(client, pid=child.pid)
        claim(client, until=(datetime.now(UTC) + timedelta(seconds=0.5)).isoformat())
        assert child.stdin is not None
        child.stdin.close()
        child.wait()

    def all_ended() -> list[str]:
        events = client.get("/api/v1/events").json()
        found = {one["subject"]: one["data"]["why"] for one in events if one["kind"] == "claim.ended"}
        return [found["Q1"], found["Q2"]] if len(found) == 2 else []

    assert wait_until(all_ended) == [f"pid {child.pid} has ended", "its time is over"]


def test_claims_are_in_no_session_file(client: TestClient) -> None:
    sessions(client, "s")
    claim(client, "S1", why="not for others")
    assert "not for others" not in client.get("/api/v1/sessions/S1/export").text
    answer = client.post("/api/v1/import", content=b'{"type":"claim","resource":"gpu","numbers":[1]}')
    assert answer.status_code == 422


def test_a_checkpoint_names_what_others_claim_of_the_same(client: TestClient) -> None:
    sessions(client, "mine", "theirs")
    claim(client, "S1", numbers=[0, 1], owner="anna")
    assert "claimed by" not in checkpoint(client)
    claim(client, "S2", numbers=[1, 2], owner="ben", until="2099-01-01T00:00:00Z", why="training")
    text = checkpoint(client)
    assert "GPU 1 is claimed by ben (S2) until 2099-01-01T00:00:00Z (Q2: training), and this session uses" in text


def checkpoint(client: TestClient) -> str:
    client.post("/api/v1/sessions/S1/checkpoints", json={}).raise_for_status()
    return client.get("/api/v1/sessions/S1/checkpoints/latest", params={"format": "md"}).text


@pytest.mark.slow
@pytest.mark.gcc
def test_a_launch_claims_its_gpus_and_port_for_as_long_as_it_lives(
    gpu_daemon: Callable[..., Daemon], nvml_stub: NvmlStub, tmp_path: Path
) -> None:
    nvml_stub.set(gpus=4)
    daemon = gpu_daemon()
    sessions(daemon.client, "first", "second")
    port = free_port()
    flags = f"-m sglang.launch_server --model-path /models/kimi --tp-size 2 --base-gpu-id 1 --port {port}"
    command = f"{sys.executable} -m sitrepd.demo.replay --duration 2 {flags} > {tmp_path / 'x.log'} 2>&1"
    body = {"command": command, "cwd": str(tmp_path), "name": "two ranks"}
    daemon.client.post("/api/v1/launches", json=body, headers={"X-Sitrep-Session": "S1"}).raise_for_status()
    found = wait_until(lambda: held(daemon.client))
    assert {(one["resource"], tuple(one["numbers"])) for one in found} == {("gpu", (1, 2)), ("port", (port,))}
    assert {(one["launch"], one["session"], one["why"]) for one in found} == {("L1", "S1", "two ranks")}
    other = {"command": command.replace(str(port), str(free_port())), "cwd": str(tmp_path)}
    told = daemon.client.post("/api/v1/launches/check", json=other, headers={"X-Sitrep-Session": "S2"}).json()
    [warning] = [one for one in told["checks"] if one["name"] == "claims"]
    assert (warning["level"], warning["fix"].endswith("sitrep stop L1")) == ("warning", True)
    assert warning["text"].startswith("GPUs 1-2 are claimed by")
    assert "(S1, L1) for as long as that launch lives" in warning["text"]
    daemon.client.post("/api/v1/launches/L1/stop", json={"grace_s": 1, "wait_s": 20}).raise_for_status()
    wait_until(lambda: held(daemon.client) == [])


@pytest.mark.slow
def test_the_command_line_claims(shared: Sitrep) -> None:
    said = shared("claim", "gpu", "40-42,50", "--for", "90m", "--why", "profiling", "--owner", "anna").ok().out
    assert said.split(":")[1].startswith(" GPU 40-42,50 claimed by anna until ")
    number = said.split(":")[0]
    listed = shared("claim", "list").ok().out
    assert all(word in listed for word in (number, "40-42,50", "anna", "profiling"))
    assert f"{number} ended." in shared("claim", "end", number).ok().out
    assert number not in shared("claims").ok().out
    assert "write numbers as 0-3" in shared("claim", "gpu", "3-1").refused(2)
    assert shared("claim", "port", "30000", "--json").json["resource"] == "port"


def test_numbers_and_times_as_people_write_them() -> None:
    assert numbers_of("0-3,6,2") == [0, 1, 2, 3, 6]
    assert ranges([6, 0, 1, 3, 2, 1]) == "0-3,6"
    assert [duration_of(one).total_seconds() for one in ("90s", "1h30m", "1.5h", "2min", "1d")] == [
        90, 5400, 5400, 120, 86400,
    ]  # fmt: skip
    for bad in ("", "2", "h", "2h x", "-1h", "99999999999d"):
        with pytest.raises(typer.BadParameter):
            duration_of(bad)
    lengths = [timedelta(seconds=20), timedelta(minutes=59), timedelta(hours=2), timedelta(hours=26, minutes=1)]
    assert [duration(one) for one in lengths] == ["less than a minute", "59 min", "2 h", "26 h 1 min"]


def test_how_an_end_is_said() -> None:
    one = Claim(id=3, resource="port", numbers=[80], provenance="told", owner="anna", until=NOW + timedelta(hours=1))
    assert said(one, [80], NOW) == "port 80 is claimed by anna until 2026-03-01T13:00:00Z, 1 h left (Q3)"
    assert said(one, [80]) == "port 80 is claimed by anna until 2026-03-01T13:00:00Z (Q3)"
    assert why_over(one, {}, NOW) is None
    assert why_over(one, {}, NOW + timedelta(hours=1)) == "its time is over"
    one.until, one.launch_id = None, 7
    assert why_over(one, {}, NOW) is None
    one.provenance = "observed:launch"
    assert why_over(one, {}, NOW) == "L7 has ended"
