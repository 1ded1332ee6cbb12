"""A comparison told through every door: how sure it is, what is on the front, what a token costs, and its charts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient
from PIL import Image
from sqlmodel import Session
from tests.daemons import application

from sitrepd.benchmarks.decide import front
from sitrepd.benchmarks.drawing import ticks
from sitrepd.hardware.models import GpuSample

_PATH = "/api/v1/sessions/current/comparison"
_RUNS: dict[int | None, list[float]] = {
    None: [88.8, 88.5, 89.1, 88.7, 88.9], 1: [85.1, 85.4, 84.9, 85.3, 85.0], 2: [94.0, 94.3, 93.8, 94.1, 93.9],
    3: [88.9, 88.2, 89.3, 88.6, 88.8], 4: [92.0], 5: [86.7, 86.5, 86.9, 86.6, 40.0],
}  # fmt: skip


def _config(steps: int | None) -> dict[str, Any]:
    if steps is None:
        return {"speculative_algorithm": None}
    return {"speculative_algorithm": "EAGLE3", "speculative_num_steps": steps}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with application(tmp_path_factory.mktemp("compared") / "store") as found:
        found.post("/api/v1/sessions", json={"name": "s"})
        for steps, values in _RUNS.items():
            for value in values:
                metrics = {
                    "output_throughput": {"value": value, "unit": "tok/s"}, "median_tpot_ms": 1000 / value,
                    "median_ttft_ms": 50, "p99_ttft_ms": 90 + (steps or 0),
                }  # fmt: skip
                body = {"config": _config(steps), "metrics": metrics, "baseline": steps is None}
                assert found.post("/api/v1/benchmarks", json=body).status_code == 201
        yield found


def _rows(client: TestClient, **asked: Any) -> dict[Any, dict[str, Any]]:
    answer = client.get(_PATH, params=asked)
    assert answer.status_code == 200, answer.text
    return {row["settings"].get("speculative_num_steps"): row for row in answer.json()["rows"]}


def test_how_sure_a_difference_is(client: TestClient) -> None:
    rows = _rows(client)
    assert {steps: row["verdict"].get("word") for steps, row in rows.items()} == {
        None: None, 1: "worse", 2: "better", 3: "no difference seen", 4: "one run only: not known",
        5: "no difference seen",
    }  # fmt: skip
    best = rows[2]
    assert (best["difference"], best["best"], best["verdict"]["count"]) == ("+5.9 %", True, 5)
    assert 5.4 < best["verdict"]["low"] < 5.87 < best["verdict"]["high"] < 6.3
    assert "low" not in rows[4]["verdict"]


def test_an_outlier_is_named_with_what_would_be_without_it(client: TestClient) -> None:
    row = _rows(client)[5]
    assert row["verdict"]["outliers"] == [row["ids"][4]]
    rest = row["verdict"]["without_outliers"]
    assert (rest["word"], rest["count"], rest["mean"]) == ("worse", 4, pytest.approx(86.675))
    assert "mean of 5 runs" in row["words"]


def test_fewer_is_better_where_the_metric_says_so(client: TestClient) -> None:
    rows = _rows(client, metric="median_tpot_ms")
    assert (rows[2]["verdict"]["word"], rows[1]["verdict"]["word"]) == ("better", "worse")


def test_front_and_cost(client: TestClient) -> None:
    rows = _rows(client, price=20)
    assert [steps for steps, row in rows.items() if row["pareto"]] == [2]
    assert rows[4]["cost_per_million"] == pytest.approx(20 / (92.0 * 3600) * 1e6)
    assert all("cost_per_million" not in row for row in _rows(client).values())
    # Beside another latency the slow ones may be on it too.
    assert [steps for steps, row in _rows(client, latency="p99_ttft_ms").items() if row["pareto"]] == [None, 2]


def test_other_runs_and_another_baseline(client: TestClient) -> None:
    every = _rows(client)
    chosen = _rows(client, run=every[1]["ids"] + every[2]["ids"], baseline=every[1]["ids"][0])
    # Of five equal configurations one is the baseline, and so its repeats are too.
    assert (chosen[2]["difference"], chosen[1]["baseline"]) == ("+10.4 %", True)
    assert client.get(_PATH, params={"run": "B999"}).json()["detail"] == "The session has no run B999."
    assert client.get(_PATH, params={"latency": "x"}).status_code == 422
    assert client.get(_PATH, params={"price": "-1"}).status_code == 422


def test_samples_of_one_run_count_as_repeats(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        client.post("/api/v1/sessions", json={"name": "s"})
        for name, samples in (("base", [10.0, 10.1, 9.9]), ("new", [12.0, 12.1, 11.9])):
            body = {"name": name, "baseline": name == "base", "samples": {"output_throughput": samples},
                    "metrics": {"output_throughput": samples[0]}}  # fmt: skip
            client.post("/api/v1/benchmarks", json=body)
        assert [row["verdict"].get("word") for row in client.get(_PATH).json()["rows"]] == [None, "better"]


def test_energy_of_a_run_that_was_taken_in_as_it_ended(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        client.post("/api/v1/sessions", json={"name": "s"})
        host = client.post("/api/v1/hosts", json={"name": "box"}).json()["id"]
        launch = client.post("/api/v1/launches", json={"start": False, "host": host}).json()["id"]
        ended = datetime(2026, 3, 1, 12, tzinfo=UTC)

        def job(db: Session) -> None:
            for gpu, watts in ((0, 300.0), (1, 500.0)):
                for second in range(-20, 20):
                    drawn = watts if -10 <= second <= 0 else 60.0
                    at = ended + timedelta(seconds=second)
                    db.add(GpuSample(host_id=int(host[1:]), gpu=gpu, at=at, power_w=drawn))

        client.app.state.runtime.store.write(job)  # type: ignore[attr-defined]
        metrics = {"output_throughput": 100, "duration": 10, "total_output_tokens": 1000}
        for provenance in ("observed:/r.jsonl", "imported:/r.jsonl"):
            body = {
                "name": provenance,
                "launch": launch,
                "metrics": metrics,
                "at": ended.isoformat(),
                "provenance": provenance,
            }
            assert client.post("/api/v1/benchmarks", json=body).status_code == 201
        rows = client.get(_PATH).json()["rows"]
        assert [row.get("joules_per_token") for row in rows] == [8.0, None]


def test_csv_and_markdown(client: TestClient) -> None:
    answer = client.get(f"{_PATH}/table", params={"price": 20})
    assert answer.headers["content-type"].startswith("text/csv")
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    best = next(row for row in rows if row["speculative_num_steps"] == "2")
    assert (best["output_throughput"], best["difference_percent"], best["verdict"]) == ("94.0", "5.9", "better")
    text = client.get(f"{_PATH}/table", params={"format": "md"}).text
    assert text.splitlines()[0].startswith("| runs | configuration | speculative_algorithm | speculative_num_steps |")
    assert "| best, mean of 5 runs, better |" in text
    assert "is an outlier: worse without |" in text


def test_told_words_are_no_formulas_of_a_spreadsheet(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        client.post("/api/v1/sessions", json={"name": "s"})
        client.post("/api/v1/benchmarks", json={"name": "=cmd()|x", "metrics": {"output_throughput": 1}})
        assert "'=cmd()|x" in client.get(f"{_PATH}/table").text
        assert "=cmd()\\|x" in client.get(f"{_PATH}/table", params={"format": "md"}).text


@pytest.mark.parametrize("kind", ["curve", "latency", "pareto"])
def test_charts(client: TestClient, kind: str) -> None:
    answer = client.get(f"{_PATH}/chart", params={"kind": kind})
    assert answer.headers["content-type"] == "image/svg+xml"
    root = ElementTree.fromstring(answer.text)
    words = [one.text for one in root.iter("{http://www.w3.org/2000/svg}text")]
    wanted = {"curve": "94.0", "latency": "p99", "pareto": "EAGLE3, 2 steps"}[kind]
    assert wanted in words
    for one in root.iter("{http://www.w3.org/2000/svg}text"):
        x, width = float(one.attrib["x"]), 7 * len(one.text or "")
        begin = x - {"start": 0, "middle": width / 2, "end": width}[one.attrib["text-anchor"]]
        assert begin >= -10
        assert begin + width <= 770, one.text
    for one in root.iter("{http://www.w3.org/2000/svg}circle"):
        assert 0 <= float(one.attrib["cx"]) <= 760
        assert 0 <= float(one.attrib["cy"]) <= 420
    picture = Image.open(io.BytesIO(client.get(f"{_PATH}/chart", params={"kind": kind, "format": "png"}).content))
    picture.load()
    assert (picture.format, picture.size) == ("PNG", (1520, 840))
    assert len(picture.getcolors(1 << 20) or ()) > 20


def test_a_chart_that_cannot_be_drawn_says_what_is_missing(tmp_path: Path, client: TestClient) -> None:
    answer = client.get(f"{_PATH}/chart", params={"setting": "tp_size"})
    assert (answer.status_code, answer.json()["detail"]) == (
        422, "No curve can be drawn: no run has the setting tp_size.",
    )  # fmt: skip
    with application(tmp_path / "store") as empty:
        empty.post("/api/v1/sessions", json={"name": "s"})
        for kind in ("curve", "latency", "pareto"):
            assert empty.get(f"{_PATH}/chart", params={"kind": kind}).status_code == 422
        assert empty.get(f"{_PATH}/table", params={"format": "md"}).text == "No benchmarks yet.\n"


def test_the_front_keeps_ties() -> None:
    assert front([(1, 1), (2, 2), (2, 2), (2, 3), (1, 2), (3, None), (None, None)]) == {0, 1, 2}
    assert front([]) == set()


def test_ticks_are_round_and_hold_all() -> None:
    for low, high in ((84.9, 94.3), (0, 0), (5, 5), (-3, 1e6), (1e-9, 2e-9)):
        found = ticks(low, high)
        assert found[0] <= low + 1e-12
        assert found[-1] >= high - 1e-12
        assert 2 <= len(found) <= 9


def test_a_baseline_that_may_be_zero_hides_no_certain_difference(tmp_path: Path) -> None:
    runs = {None: [51.99, 96.75, 23.09], 1: [574.9, 463.4, 472.9], 2: [120.0, 30.0, 90.0]}
    with application(tmp_path / "store") as client:
        client.post("/api/v1/sessions", json={"name": "noisy"})
        for steps, values in runs.items():
            for value in values:
                body = {"config": _config(steps), "metrics": {"output_throughput": value}, "baseline": steps is None}
                assert client.post("/api/v1/benchmarks", json=body).status_code == 201
        rows = _rows(client)
        page = client.get("/s/S1/comparison").text
    words = {steps: row["verdict"].get("word") for steps, row in rows.items()}
    assert words == {None: None, 1: "better", 2: "no difference seen"}
    assert "low" not in rows[1]["verdict"]
    assert "better" in page
