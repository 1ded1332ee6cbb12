"""Facts that cannot all hold are found and shown; what goes together is left alone."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.checkpoints import telling
from tests.checkpoints.telling import latest, section_text, tell, written

from sitrepd.checkpoints import here

SESSION = {"type": "session", "name": "s"}
DAY = "2026-12-01T0{}:00:00Z".format


def finding(key: str, kind: str = "root_cause", status: str = "confirmed", **more: Any) -> dict[str, Any]:
    return {"type": "finding", "key": key, "kind": kind, "title": f"title {key}", "status": status} | more


def step(key: str, text: str = "do", **more: Any) -> dict[str, Any]:
    return {"type": "next_step", "key": key, "text": text} | more


def launch(key: str, state: str, **more: Any) -> dict[str, Any]:
    return {"type": "launch", "key": key, "state": state, "command": "serve --speculative-num-steps 3"} | more


def run(key: str, value: float, **more: Any) -> dict[str, Any]:
    return {"type": "benchmark", "key": key, "name": key, "metrics": {"output_throughput": value}} | more


BASE = run("base", 5, baseline=True)

TOLD: list[tuple[list[dict[str, Any]], str | None]] = [
    (
        [finding("a", supersedes="b"), finding("b", supersedes="a")],
        "F1 and F2 are told to replace each other: which one holds is not known",
    ),
    ([finding("a"), finding("b", supersedes="a", evidence=["a"])], None),
    (
        [finding("a", "hypothesis", "refuted"), finding("b", evidence=["a"])],
        "F2 is confirmed, but F1, its evidence, is refuted",
    ),
    (
        [finding("a", "rejected", title="FP8  KV cache."), finding("b", "decision", title="fp8 kv cache")],
        "F2 decides what F1 rejects: both say “fp8 kv cache”",
    ),
    (
        [finding("a", "rejected", "refuted", title="FP8"), finding("b", "decision", title="FP8")],
        None,
    ),
    (
        [{"type": "directive", "text": "x", "active": False}, step("n", "As D1 wants")],
        "N1 names D1, which the user has taken back",
    ),
    ([{"type": "directive", "text": "x"}, step("n", "As D1 wants")], None),
    ([finding("a", "rejected"), step("n", "Try F1 once more")], "N1 is to do, and names F1, a rejected option"),
    ([finding("a", "rejected"), step("n", "Try F1", state="done")], None),
    *(
        ([finding("a", "rejected", title=title), step("n", text)], said and "N1 is to do, and names F1, a rejected option")
        for title, text, said in (
            ("Setting NCCL_P2P_DISABLE=1", "Set `NCCL_P2P_DISABLE=1` and soak.", True),
            ("--kv-cache-dtype fp8_e5m2 costs accuracy", "Run again with --kv-cache-dtype=fp8_e5m2.", True),
            ("`--enforce-eager`", "Start with --enforce-eager once more", True),
            ("FP8 KV cache", "Try the fp8 KV cache with 2 steps", True),
            ("Setting NCCL_P2P_DISABLE=1", "Set NCCL_P2P_DISABLE=0 and NCCL_P2P_DISABLE=10.", None),
            ("5 steps", "Measure 15 steps", None),
            ("--enforce-eager", "Run without --enforce-eager", None),
            ("MTP", "Compare with the MTP head of others", None),
        )
    ),
    (
        [step("a"), step("b", state="done", after=["a"])],
        "N2 is done, but N1, which it waits for, is still todo",
    ),
    ([step("a", state="done"), step("b", state="done", after=["a"])], None),
    ([step("a", state="dropped"), step("b", after=["a"])], "N2 waits for N1, which was dropped"),
    ([step("a", after=["b"]), step("b", after=["a"])], "N1 and N2 wait for each other"),
    (
        [BASE, run("c", 6, baseline=True, config={"x": 1})],
        "B1, B2 are all told as the baseline: differences are to the last one that counts",
    ),
    ([BASE, run("again", 6, baseline=True) | {"name": "base, run 2"}], None),
    ([BASE, run("c", 6), run("d", 6)], "B2 and B3 are equally good: neither is the better one"),
    (
        [launch("l", "failed"), BASE, run("c", 6, launch="l")],
        "B2 names L1, which failed without having been ready",
    ),
    (
        [launch("l", "failed", ready_at=DAY(1), ended_at=DAY(2)), BASE, run("c", 6, launch="l", at=DAY(3))],
        f"B2, told as of {DAY(3)}, names L1, which failed before, at {DAY(2)}",
    ),
    ([launch("l", "exited", ready_at=DAY(1), ended_at=DAY(2)), BASE, run("c", 6, launch="l", at=DAY(3))], None),
    (
        [launch("a", "ready", port=8000), launch("b", "loading", port=8000)],
        "L2 (loading) and L1 (ready) are both told to have port 8000",
    ),
    ([launch("a", "ready", port=8000), launch("b", "loading", port=8001)], None),
    (
        [launch("l", "exited"), BASE, run("c", 6, launch="l", config={"speculative_num_steps": 2})],
        "B2 was told with speculative_num_steps=2, but L1 was started with 3",
    ),
    ([launch("l", "exited"), BASE, run("c", 6, launch="l", config={"speculative_num_steps": 3})], None),
]  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


@pytest.mark.parametrize("number", range(len(TOLD)))
def test_what_does_not_go_together_is_shown(folders: Path, number: int) -> None:
    told, expected = TOLD[number]
    rendered = written(folders / str(number), [SESSION, *told])
    if expected is None:
        assert not any(one["name"] == "contradictions" for one in rendered["sections"])
    else:
        assert section_text(rendered, "contradictions") == [f"- {expected}"]


def test_the_reference_session_contradicts_itself_nowhere(tmp_path: Path) -> None:
    rendered = written(tmp_path, telling.lines())
    assert not any(one["name"] == "contradictions" for one in rendered["sections"])


def test_a_path_that_does_not_exist_on_this_host_is_told(client: TestClient, tmp_path: Path) -> None:
    tell(client, "sessions", name="s")
    kept = tmp_path / "kept"
    kept.touch()
    elsewhere = tell(client, "hosts", name="other")["id"]
    for body in ({"path": str(kept)}, {"path": str(tmp_path / "gone")}, {"path": "relative.py"}):
        tell(client, "artifacts", **body)
    tell(client, "artifacts", path=str(tmp_path / "there"), host=elsewhere)
    text = latest(client)
    assert f"- A2 names {tmp_path / 'gone'}, which does not exist on this host\n" in text
    assert text.count("does not exist") == 1


def test_logs_that_do_not_exist_any_more_are_told_at_once(client: TestClient, tmp_path: Path) -> None:
    tell(client, "sessions", name="s")
    kept = tmp_path / "kept.log"
    kept.touch()
    for log in (kept, tmp_path / "a.log", tmp_path / "b.log"):
        tell(client, "launches", start=False, command="serve", state="exited", log_path=str(log))
    assert "- L2, L3: the logs do not exist on this host any more\n" in latest(client)


def test_paths_of_an_imported_session_may_be_anywhere(client: TestClient) -> None:
    telling.tell_reference(client)
    assert "does not exist" not in latest(client)


def test_a_file_system_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    stat = here.os.stat

    def stuck(path: str) -> Any:
        if path == "/hangs":
            answered.wait(30)
        return stat(path)

    monkeypatch.setattr(here.os, "stat", stuck)
    try:
        assert here.missing({"A1": "/absent/x", "A2": "/hangs", "A3": "/absent/y"}, 0.2) == ["A1"]
        assert here.missing({"A4": "/absent/z"}, 0.2) == []
    finally:
        answered.set()
        assert here._looking is not None
        here._looking.join()
    assert here.missing({"A4": "/absent/z"}, 30) == ["A4"]


def server(**more: Any) -> Any:
    return SimpleNamespace(**({"launch": None, "port": None, "listening": []} | more))


@pytest.mark.parametrize(
    ("servers", "said"),
    [
        ([], True),
        ([server(port=9000)], True),
        ([server(port=8000)], False),
        ([server(launch="L7", port=8000, listening=[8000])], False),
        ([server(port=None)], False),
        (None, False),
    ],
)
def test_a_server_that_was_told_to_run_here_and_does_not(servers: Any, said: bool) -> None:
    found = None if servers is None else SimpleNamespace(servers=servers)
    item = {"kind": "launch", "id": "L1", "ids": ["L1"], "watched": False, "state": "ready", "port": 8000}
    told = [text for text, _ in here._servers(1, False, found, [item, {"kind": "none", "ids": []}])]
    assert told == (["L1 was told as ready on port 8000 of this host, but no server runs there"] if said else [])
    assert not list(here._servers(1, True, found, [item]))
