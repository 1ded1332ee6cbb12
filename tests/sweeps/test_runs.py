"""Sweeps carried out against a server that is ready at once."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.daemons import application
from tests.helpers import lives, wait_until
from tests.sweeps.playing import Play

API = "/api/v1"


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with application(tmp_path_factory.mktemp("sweeps") / "store", log_poll_s=0.05) as client:
        yield client


@pytest.fixture
def play(app: TestClient, tmp_path: Path) -> Iterator[Play]:
    """A session of the test's own, and whatever it started stopped at its end."""
    session = app.post(f"{API}/sessions", json={"name": tmp_path.name}).json()["id"]
    app.headers["X-Sitrep-Session"] = session
    found = Play(tmp_path)
    yield found
    found.hold.unlink(missing_ok=True)
    for sweep in app.get(f"{API}/sessions/{session}/sweeps").json()["data"]:
        if sweep["state"] in ("running", "planned", "paused"):
            app.post(f"{API}/sweeps/{sweep['id']}/stop").raise_for_status()
        _until(app, sweep["id"], lambda told: not any(one["state"] == "running" for one in told["trials"]))


def _run(app: TestClient, told: dict[str, Any]) -> str:
    answer = app.post(f"{API}/sweeps/run", json=told)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def _status(app: TestClient, sweep: str) -> dict[str, Any]:
    found: dict[str, Any] = app.get(f"{API}/sweeps/{sweep}/status").json()
    return found


def _until(app: TestClient, sweep: str, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        told = _status(app, sweep)
        return told if holds(told) else None

    found = wait_until(look)
    assert found is not None
    return found


def _over(app: TestClient, sweep: str) -> dict[str, Any]:
    return _until(app, sweep, lambda told: told["state"] in ("done", "failed", "paused"))


@pytest.mark.slow
def test_a_sweep_is_carried_out_and_says_what_won(app: TestClient, play: Play) -> None:
    told = _over(app, _run(app, play.sweep()))
    assert (told["state"], told["over"], told["left"]) == ("done", 3, 0)
    assert [(one["name"], one["state"], one["runs"]) for one in told["trials"]] == [
        ("baseline", "done", 2), ("steps 1", "done", 2), ("steps 2", "done", 2),
    ]  # fmt: skip
    base, one, two = told["trials"]
    assert (base["value"], two["value"], two["difference"]) == ("88.95", "94.15", "+5.8 %")
    assert one["verdict"].startswith("worse, 95 % interval")
    assert two["verdict"].startswith("better, 95 % interval")
    assert [trial["best"] for trial in told["trials"]] == [False, False, True]
    starts = play.starts()
    assert [start["steps"] for start in starts] == [0, 1, 2]
    assert not any(lives(start["pid"]) for start in starts)
    launches = [app.get(f"{API}/launches/{trial['launch']}").json() for trial in told["trials"]]
    assert [launch["state"] for launch in launches] == ["exited"] * 3
    runs = [app.get(f"{API}/benchmarks/{run}").json() for run in two["benchmarks"]]
    assert [(run["launch"], run["config"]["steps"], run["name"]) for run in runs] == [(two["launch"], 2, "steps 2")] * 2
    app.post(f"{API}/sessions/current/checkpoints", json={}).raise_for_status()
    shown = app.get(f"{API}/sessions/current/checkpoints/latest", params={"format": "md"}).text
    assert "(done): 3 of 3 trials over" in shown
    assert "Best by output_throughput: steps 2, 94.15 tok/s, +5.8 %, better" in shown
    assert "- steps 1: done" in shown


@pytest.mark.slow
def test_a_trial_that_fails_is_told_and_the_next_one_tried(app: TestClient, play: Play) -> None:
    sweep = _run(app, play.sweep(parameters={"steps": [9, 2]}, baseline=None))
    told = _over(app, sweep)
    failed, good = told["trials"]
    assert (told["state"], failed["state"], good["state"]) == ("done", "failed", "done")
    assert "steps are not possible" in failed["why"]
    findings = app.get(f"{API}/sessions/current/findings").json()["data"]
    assert any(failed["launch"] in one["evidence"] for one in findings)
    again = app.post(f"{API}/trials/{failed['id']}/retry").json()
    assert again["state"] == "planned"
    told = _until(app, sweep, lambda told: told["state"] == "done" and told["trials"][0]["attempt"] == 2)
    assert [start["steps"] for start in play.starts()] == [9, 2, 9]


@pytest.mark.slow
def test_three_that_fail_the_same_way_pause_it(app: TestClient, play: Play) -> None:
    told = _over(app, _run(app, play.sweep(parameters={"MODE": ["break"], "seed": [1, 2, 3, 4]}, baseline=None)))
    assert told["state"] == "paused"
    assert told["why"].startswith("3 trials in a row have failed the same way: ")
    assert [one["state"] for one in told["trials"]] == ["failed", "failed", "failed", "planned"]
    assert len(play.starts()) == 3


@pytest.mark.slow
def test_it_is_paused_reordered_extended_and_resumed(app: TestClient, play: Play) -> None:
    play.hold.touch()
    sweep = _run(app, play.sweep(parameters={"steps": [1, 2]}, baseline=None))
    _until(app, sweep, lambda told: told["trials"][0].get("step") == "measuring")
    assert app.post(f"{API}/sweeps/{sweep}/pause").json()["state"] == "paused"
    play.hold.unlink()
    told = _until(app, sweep, lambda told: told["trials"][0]["state"] == "done")
    assert told["trials"][1]["state"] == "planned"
    added = app.post(f"{API}/sweeps/{sweep}/extend", json={"parameters": {"steps": [2, 3]}}).json()["added"]
    assert len(added) == 1
    order = app.post(f"{API}/sweeps/{sweep}/reorder", json={"trials": added}).json()["trials"]
    assert [one["name"] for one in order] == ["steps 1", "steps 3", "steps 2"]
    assert app.post(f"{API}/sweeps/{sweep}/resume").status_code == 200
    assert _over(app, sweep)["state"] == "done"
    assert [start["steps"] for start in play.starts()] == [1, 3, 2]


@pytest.mark.slow
def test_stopped_it_leaves_no_server_and_can_be_gone_on_with(app: TestClient, play: Play) -> None:
    play.hold.touch()
    sweep = _run(app, play.sweep(parameters={"steps": [1]}, baseline=None))
    _until(app, sweep, lambda told: told["trials"][0].get("step") == "measuring")
    (first,) = play.starts()
    assert app.post(f"{API}/sweeps/{sweep}/stop").json()["state"] == "stopped"
    told = _until(app, sweep, lambda told: told["trials"][0]["state"] == "planned")
    assert not lives(first["pid"])
    assert told["trials"][0]["why"] == "given up when the sweep was halted"
    play.hold.unlink()
    app.post(f"{API}/sweeps/{sweep}/resume").raise_for_status()
    told = _until(app, sweep, lambda told: told["state"] == "done")
    assert told["trials"][0]["attempt"] == 2


@pytest.mark.slow
def test_what_cannot_win_is_measured_once(app: TestClient, play: Play) -> None:
    bench = play.benchmark | {"repeat": 5}
    told = _over(
        app,
        _run(app, play.sweep(parameters={"steps": [2, 5]}, baseline={"steps": 2}, early_stop=True, benchmarks=[bench])),
    )
    best, hopeless = told["trials"]
    assert (told["state"], best["runs"], hopeless["state"]) == ("done", 5, "skipped")
    assert "it cannot win" in hopeless["why"]
    assert len(hopeless["benchmarks"]) < 5


_NEEDS_SECRETS = """
import json, os, sys
assert (os.environ["BENCH_TOKEN"], sys.argv[2:]) == (os.environ["SAID"][::-1], ["--api-key", os.environ["SAID"][::-1]])
json.dump({"output_throughput": 1.5, "completed": 1, "duration": 1.0, "backend": "sglang", "total_output_tokens": 1,
           "dataset_name": "random-ids", "request_throughput": 1.0}, open(sys.argv[1], "w"))
"""


@pytest.mark.slow
def test_secrets_of_its_benchmarks_reach_them_and_are_not_stored(app: TestClient, play: Play) -> None:
    secret = "sk-" + "a9Kd83jfLq02mZxv" + "QWERTY"
    words = [sys.executable, "-I", "-S", "-c", _NEEDS_SECRETS, "{output}", "--api-key", secret]
    env = {"BENCH_TOKEN": secret, "SAID": secret[::-1]}
    bench = {"tool": "command", "flags": words, "repeat": 1, "env": env}
    told = _over(app, _run(app, play.sweep(parameters={"steps": [1]}, baseline=None, benchmarks=[bench])))
    assert (told["state"], told["trials"][0]["state"]) == ("done", "done"), told
    store = app.app.state.runtime.settings.data_dir  # type: ignore[attr-defined]
    assert not [path for path in store.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


@pytest.mark.slow
def test_a_search_tries_as_many_as_it_may(app: TestClient, play: Play) -> None:
    sweep = play.sweep(parameters={"steps": [1, 2, 3, 4]}, baseline=None, search={"method": "random", "trials": 2})
    told = _over(app, _run(app, sweep))
    assert (told["state"], told["count"], len(told["trials"])) == ("done", 2, 2)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"parameters": {"steps": {"from": 1, "to": 5, "step": 0}}}, "never ends"),
        ({"constraints": ["steps > 100"]}, "leave no combination"),
        ({"template": {"launch": "L999999"}}, "there is no launch"),
        ({"template": {"argv": ["/no/such/program"]}}, "No such program"),
        ({"template": {"launch": "L1", "argv": ["x"]}}, "one of launch, command and argv"),
        ({"search": {"method": "random"}}, "how many trials"),
        ({"benchmarks": [{"preset": "nonesuch"}]}, "There is no preset"),
        ({"benchmarks": [{"tool": "command"}]}, "wants its words"),
        ({"benchmarks": []}, "benchmarks"),
        ({"parameters": {}}, "parameters"),
        ({"unknown": 1}, "unknown"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_nothing_stored(
    app: TestClient, play: Play, more: dict[str, Any], said: str
) -> None:
    before = app.get(f"{API}/sweeps").json()["count"]
    for path in ("check", "run"):
        answer = app.post(f"{API}/sweeps/{path}", json=play.sweep(**more))
        assert answer.status_code in (404, 422), answer.text
        assert said in answer.text
    assert app.get(f"{API}/sweeps").json()["count"] == before
    assert play.starts() == []


_CONFIG = {"model_type": "llama", "num_attention_heads": 8, "num_key_value_heads": 4, "max_position_embeddings": 2048}


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"tp-size": [1, 3]}, "8 attention heads do not divide by 3"),
        ({"context-length": [1024, 4096]}, "4096 is more than the 2048 tokens"),
        ({"speculative-algorithm": ["EAGLE"], "speculative-draft-model-path": ["/no/draft"]}, "/no/draft"),
    ],
)  # fmt: skip
def test_a_trial_that_the_checks_before_a_launch_refuse_is_no_part_of_a_sweep(
    app: TestClient, play: Play, tmp_path: Path, parameters: dict[str, Any], said: str
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps(_CONFIG))
    argv = [sys.executable, "-m", "sglang.launch_server", "--model-path", str(model)]
    told = play.sweep(template={"argv": argv}, parameters=parameters, baseline=None)
    for path in ("check", "run"):
        answer = app.post(f"{API}/sweeps/{path}", json=told)
        assert (answer.status_code, said in answer.text) == (422, True), answer.text
    assert said in app.post(f"{API}/sweeps/check", json=told | {"force": True}).text
    assert app.get(f"{API}/sessions/current/sweeps").json()["count"] == 0


def test_of_a_large_search_the_first_combinations_are_shown(app: TestClient, play: Play) -> None:
    many = {"steps": {"from": 1, "to": 1000}, "size": [1, 2]}
    told = play.sweep(parameters=many, baseline=None, search={"method": "random", "trials": 2})
    planned = app.post(f"{API}/sweeps/check", json=told).json()
    assert (planned["count"], planned["choices"], len(planned["trials"])) == (2, 2000, 1001)


@pytest.mark.usefixtures("play")
def test_a_sweep_that_was_only_told_is_not_run(app: TestClient) -> None:
    sweep = app.post(f"{API}/sweeps", json={"name": "told", "state": "running"}).json()["id"]
    answer = app.post(f"{API}/sweeps/{sweep}/pause")
    assert answer.status_code == 409
    assert "was told, and is not run by this daemon" in answer.json()["detail"]
    app.patch(f"{API}/sweeps/{sweep}", json={"state": "done"}).raise_for_status()
