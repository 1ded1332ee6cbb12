"""The pages of comparisons and of what was measured, by HTTP."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

_EVIL = "<script>alert(1)</script>"


@pytest.fixture
def compared(client: TestClient) -> TestClient:
    client.post("/api/v1/sessions", json={"name": "s"})
    for steps, values in {0: [10.0, 10.1, 9.9], 1: [12.0, 12.1, 11.9], 2: [9.0]}.items():
        for value in values:
            _tell(client, steps, value)
    _tell(client, 2, 30.0, marks=[f"GPU 1 throttled {_EVIL}"])
    return client


def _tell(client: TestClient, steps: int, value: float, **more: Any) -> None:
    metrics = {"output_throughput": {"value": value, "unit": "tok/s"}, "median_tpot_ms": 1000 / value,
               "median_ttft_ms": 5, "p99_ttft_ms": 9}  # fmt: skip
    body = {"config": {"speculative_num_steps": steps}, "baseline": steps == 0, "metrics": metrics, **more}
    assert client.post("/api/v1/benchmarks", json=body).status_code == 201


def test_the_page_of_a_comparison(compared: TestClient) -> None:
    page = compared.get("/s/S1/comparison", params={"price": "24"})
    assert page.status_code == 200
    for text in ("better", "one run only: not known", "+17.4 to +22.7 %", "GPU 1 throttled", "Cost of 1 M tokens",
                 "Fieller", "median_tpot_ms against output_throughput", "Percentiles of ttft",
                 "/api/v1/sessions/S1/comparison/table?format=csv&amp;price=24.0"):  # fmt: skip
        assert text in page.text, text
    assert page.text.count("<svg xmlns") == 3
    assert "<script>alert" not in page.text
    # Every address on it leads somewhere.
    for kind in ("table?format=csv", "table?format=md", "chart?kind=curve", "chart?kind=pareto&format=png"):
        assert compared.get(f"/api/v1/sessions/S1/comparison/{kind}").status_code == 200


def test_another_metric_and_baseline(compared: TestClient) -> None:
    page = compared.get("/s/S1/comparison", params={"metric": "median_tpot_ms", "baseline": "B4", "latency": ""}).text
    assert "median_tpot_ms, ms: lower is better" in page
    assert '<option value="B4" selected>' in page
    assert "baseline=B4" in page


@pytest.mark.parametrize("asked", [{"metric": "wish"}, {"baseline": "B99"}, {"price": "-1"}, {"price": "x"}])
def test_what_cannot_be_compared_is_said(compared: TestClient, asked: dict[str, str]) -> None:
    answer = compared.get("/s/S1/comparison", params=asked)
    assert answer.status_code == 422
    assert "text/html" in answer.headers["content-type"]


def test_nothing_measured_yet(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": "s"})
    page = client.get("/s/S1/comparison")
    assert page.status_code == 200
    assert "No run of this session has output_throughput yet." in page.text
    assert client.get("/s/none/comparison").status_code == 404


def test_the_part_of_the_session_says_how_sure_it_is(compared: TestClient) -> None:
    part = compared.get("/s/S1/benchmarks").text
    for text in ("better", "+17.4 to +22.7 %", "one run only: not known", 'href="/s/S1/comparison"', "GPU 1 throttled"):
        assert text in part


def test_the_page_of_a_run_shows_its_samples(compared: TestClient) -> None:
    samples = {"output_throughput": [11.0, 11.2, 11.1, 11.0, 11.1]}
    _tell(compared, 3, 11.1, samples=samples, name=f"sampled {_EVIL}", marks=["2 requests failed"])
    page = compared.get("/f/B9").text
    for text in ("5 values, mean 11.08, 95 % interval 10.97 to 11.19", "11.0, 11.2", "2 requests failed",
                 "+11.0 % to the baseline (95 % interval", "<svg xmlns"):  # fmt: skip
        assert text in page, text
    assert "<script>alert" not in page
    repeat = compared.get("/f/B5").text
    assert "Repeats: " in repeat
    assert 'href="/f/B4"' in repeat


def test_the_page_of_a_sweep_has_its_trials_with_what_they_measured(compared: TestClient) -> None:
    sweep = {"name": f"steps {_EVIL}", "state": "done", "parameters": {"steps": [None, 1]}, "template": "serve --tp 2"}
    compared.post("/api/v1/sweeps", json=sweep).raise_for_status()
    for trial in (
        {"name": "without", "state": "done", "benchmarks": ["B1", "B2", "B3"], "baseline": True},
        {"settings": {"steps": 1, "x": None}, "state": "done", "benchmarks": ["B4", "B5", "B6"]},
        {"name": "broken", "state": "failed", "why": "out of memory"},
        {},
    ):
        compared.post("/api/v1/trials", json={"sweep": "W1", **trial}).raise_for_status()
    page = compared.get("/f/W1")
    assert page.status_code == 200
    for text in ("4 of 4 trials are over", "without", "steps 1, x absent", "12.0", "mean of 3 runs", "+20.0 %", "better",
                 "out of memory", "trial 4", "steps absent, 1", "serve --tp 2", ">best<", 'href="/f/B4"'):  # fmt: skip
        assert text in page.text, text
    assert "<script>alert" not in page.text
    assert "None" not in page.text


def test_requests_that_failed_are_counted_whole(compared: TestClient) -> None:
    metrics = {"output_throughput": {"value": 9.0, "unit": "tok/s"}, "failed": {"value": 1.0, "unit": "requests"}}
    compared.post("/api/v1/benchmarks", json={"name": "aiperf", "metrics": metrics}).raise_for_status()
    assert "1 request failed" in compared.get("/s/S1/comparison").text
