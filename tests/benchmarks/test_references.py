"""Published results beside one's own, and what differs."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.daemons import application

from sitrepd.benchmarks.metrics import Metric
from sitrepd.benchmarks.references import Own, Published, beside

_PATH = "/api/v1/sessions/S1/comparison/references"


def measured(**values: str) -> dict[str, Metric]:
    units = {"output_throughput": "tok/s"}
    return {name: Metric(name, Decimal(value), units.get(name)) for name, value in values.items()}


def test_ones_own_best_by_each_metric() -> None:
    own = [
        Own("B1", "slow", measured(output_throughput="88.8", median_ttft_ms="40")),
        Own("B2", "fast", measured(output_throughput="94.0", median_ttft_ms="60", acc_length="2.1")),
        Own("T1", "drafter", measured(accept_rate="0.47")),
    ]
    published = Published(
        "R1", "blog",
        measured(output_throughput="107.0", median_ttft_ms="50", accept_length="2.0", accept_rate="0.5", wish="1"),
    )  # fmt: skip
    found = beside(published, own)
    assert [(one.metric, one.ours, one.difference, one.verdict, one.id) for one in found.sides] == [
        ("output_throughput", "94.0", "-12.1 %", "worse", "B2"), ("median_ttft_ms", "40", "-20.0 %", "better", "B1"),
        ("accept_length", "2.1", "+5.0 %", "better", "B2"), ("accept_rate", "0.47", "-6.0 %", "worse", "T1"),
    ]  # fmt: skip
    assert found.missing == ("wish",)


def test_what_differs_is_told_with_both_values_and_what_is_not_known_as_such() -> None:
    own = Own(
        "B1", "x", measured(output_throughput="1"), {"speculative_algorithm": None, "tp_size": 8, "page_size": 1.0},
        {"num_prompts": 64}, "/models/kimi-k2.5-int4/", "8 × A", {"mem_fraction_static": 0.88, "other": 1},
    )  # fmt: skip
    published = Published(
        "R1", "blog", measured(output_throughput="2"),
        {"speculative_algorithm": "EAGLE3", "tp_size": 8, "page_size": 1, "mem_fraction_static": 0.9, "dtype": "bf16"},
        {"num_prompts": 32}, "Kimi-K2.5 INT4", "8 × B",
    )  # fmt: skip
    found = beside(published, [own])
    assert found.differs == (
        "hardware 8 × A here, 8 × B there", "speculative_algorithm none here, EAGLE3 there",
        "mem_fraction_static 0.88 here, 0.9 there", "num_prompts 64 here, 32 there",
    )  # fmt: skip
    assert found.unknown == ("dtype bf16 there, not recorded here",)


def test_where_there_is_nothing_to_compare_with() -> None:
    assert beside(Published("R1", "x", {}), []).why == "It tells no figures."
    seconds = {"latency": Metric("latency", Decimal(3), "s")}
    assert beside(Published("R1", "x", measured(latency="3")), []).why == "Nothing of one's own has measured latency."
    other = Published("R1", "x", {"latency": Metric("latency", Decimal(3000), "ms")})
    assert beside(other, [Own("B1", "y", seconds)]).why is not None
    zero = beside(Published("R1", "x", measured(latency="0")), [Own("B1", "y", measured(latency="3"))])
    assert zero.sides[0].difference is None


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with application(tmp_path_factory.mktemp("references") / "store") as found:
        found.post("/api/v1/sessions", json={"name": "s"})
        host = _told(found, "hosts", {"name": "box", "gpus": [{"index": at, "name": "H200"} for at in range(2)]})
        launch = _told(found, "launches", {"start": False, "host": host, "model": "/m/llama-3"})
        run = {"launch": launch, "metrics": {"output_throughput": {"value": 90.5, "unit": "tok/s"}}, "name": "mine",
               "config": {"tp_size": 2}}  # fmt: skip
        _told(found, "benchmarks", run)
        # A lucky repeat is not one's own best: the mean of both is.
        for value in ("89.0", "92.0"):
            measured_again = {"output_throughput": {"value": float(value), "unit": "tok/s"}}
            _told(found, "benchmarks", run | {"metrics": measured_again})
        _told(found, "benchmarks", run | {"metrics": {"output_throughput": 99}, "comparable": False, "note": "warm"})
        _told(found, "benchmarks", run | {"metrics": {"output_throughput": 98, "failed": 2}})
        _told(found, "benchmarks", run | {"metrics": {"output_throughput": 97}, "marks": ["throttled"]})
        points = [{"epoch": at, "metrics": {"accept_rate": value}} for at, value in ((1, 0.3), (2, 0.47), (3, 0.41))]
        _told(found, "trainings", {"name": "drafter", "points": points})
        _told(found, "references", {
            "name": "blog", "metrics": {"output_throughput": {"value": 100.0, "unit": "tok/s"}, "accept_rate": 0.5},
            "model": "Llama 3", "hardware": "8 × H100", "config": {"tp_size": 8},
        })  # fmt: skip
        yield found


def _told(client: TestClient, path: str, body: dict[str, Any]) -> str:
    answer = client.post(f"/api/v1/{path}", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def test_through_http_only_runs_that_count(client: TestClient) -> None:
    (told,) = client.get(_PATH).json()["data"]
    assert [(side["ours"], side["id"], side["difference"]) for side in told["sides"]] == [
        ("90.5", "B1", "-9.5 %"), ("0.47", "T1", "-6.0 %"),
    ]  # fmt: skip
    assert told["sides"][0]["label"] == "mine, mean of 3 runs"
    assert told["differs"] == ["hardware 2 × H200 here, 8 × H100 there", "tp_size 2 here, 8 there"]


def test_in_a_checkpoint_and_on_the_dashboard(client: TestClient) -> None:
    text = client.post("/api/v1/sessions/S1/checkpoints").json()["markdown"]
    line = next(line for line in text.splitlines() if line.startswith("- R1 "))
    assert "here output_throughput 90.5 tok/s (B1), -9.5 %; here accept_rate 0.47 (T1), -6.0 %" in line
    assert "differs: hardware 2 × H200 here, 8 × H100 there, tp_size 2 here, 8 there" in line
    for path in ("/s/S1/comparison", "/f/R1"):
        page = client.get(path).text
        assert "-9.5 %" in page
        assert "tp_size 2 here, 8 there" in page
    page = client.get("/f/T1").text
    for words in ("Best accept_rate: <strong>0.47</strong> at epoch 2", "accept_rate by epoch", "0.47 at epoch 2"):
        assert words in page


def test_a_profile_has_a_page(client: TestClient) -> None:
    phases = [{"name": "verify <b>", "calls": 4, "total_ms": 75}, {"name": "draft", "calls": 8, "total_ms": 25},
              {"name": "gemm", "group": "GPU", "share": 12.5}]  # fmt: skip
    page = client.get(f"/f/{_told(client, 'profiles', {'phases': phases, 'note': 'n', 'launch': 'L1'})}").text
    part = client.get("/s/S1/things").text
    assert "verify &lt;b&gt; 75.0 %, draft 25.0 %, gemm 12.5 %" in part
    assert "Best accept_rate 0.47 at epoch 2" in part
    for text in ("verify &lt;b&gt;", "75.0 %", "12.5 %", 'href="/f/L1"', "18.75"):
        assert text in page
