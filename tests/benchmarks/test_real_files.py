"""What vLLM, guidellm and aiperf wrote of a real SGLang, beside the tables that they printed of it themselves.

The samples of single requests, and of guidellm and aiperf what is not read, are left out of the files.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from sitrepd.benchmarks.parsers import BenchmarkFileError, ParsedBenchmark, read_results

_FILES = Path(__file__).parents[1] / "data" / "bench"


def run_of(name: str) -> ParsedBenchmark:
    [run] = read_results((_FILES / name).read_bytes(), name)
    return run


def values(run: ParsedBenchmark) -> dict[str, tuple[Decimal, str | None]]:
    return {one.name: (one.value, one.unit) for one in run.metrics}


@pytest.mark.parametrize(
    ("file", "printed"),
    [
        (
            "vllm-0.33.0-cpu.json",
            {
                "completed": "16 requests", "failed": "0 requests", "duration": "3.52 s",
                "total_input_tokens": "512 tokens", "total_output_tokens": "512 tokens",
                "request_throughput": "4.55 req/s", "output_throughput": "145.49 tok/s",
                "max_output_tokens_per_s": "288.00 tok/s", "max_concurrent_requests": "12 requests",
                "total_throughput": "290.97 tok/s",
                "mean_ttft_ms": "55.66 ms", "median_ttft_ms": "53.80 ms", "p99_ttft_ms": "73.77 ms",
                "mean_tpot_ms": "26.56 ms", "median_tpot_ms": "22.79 ms", "p99_tpot_ms": "52.38 ms",
                "mean_itl_ms": "27.00 ms", "median_itl_ms": "11.85 ms", "p99_itl_ms": "200.29 ms",
            },
        ),
        (
            "guidellm-0.8.1-cpu.json",
            {
                "completed": "16 requests", "failed": "0 requests", "concurrency": "3.9 requests",
                "request_throughput": "7.4 req/s", "output_throughput": "236.4 tok/s",
                "input_throughput": "236.4 tok/s", "total_throughput": "472.9 tok/s",
                "mean_ttft_ms": "97.8 ms", "median_ttft_ms": "88.1 ms", "p95_ttft_ms": "227.3 ms",
                "mean_tpot_ms": "16.6 ms", "median_tpot_ms": "16.1 ms", "p95_tpot_ms": "18.5 ms",
                "mean_itl_ms": "13.9 ms", "median_itl_ms": "14.3 ms", "p95_itl_ms": "15.9 ms",
                "total_input_tokens": "512 tokens", "total_output_tokens": "512 tokens",
            },
        ),
        (
            "aiperf-0.13.0-cpu.json",
            {
                "completed": "15.00 requests", "failed": "1 requests", "request_throughput": "1.07 req/s",
                "output_throughput": "287.39 tok/s", "mean_ttft_ms": "414.90 ms", "median_ttft_ms": "415.52 ms",
                "p90_ttft_ms": "691.02 ms", "p99_ttft_ms": "722.36 ms", "std_ttft_ms": "216.57 ms",
                "mean_itl_ms": "12.72 ms", "median_itl_ms": "11.34 ms", "p99_itl_ms": "21.96 ms",
                "mean_e2e_latency_ms": "3632.69 ms", "median_e2e_latency_ms": "3438.49 ms",
                "p90_e2e_latency_ms": "6462.68 ms", "p99_e2e_latency_ms": "6462.90 ms",
            },
        ),
    ],
)  # fmt: skip
def test_each_value_is_that_of_the_table(file: str, printed: dict[str, str]) -> None:
    found = values(run_of(file))
    for name, told in printed.items():
        number, unit = told.split()
        value, its_unit = found[name]
        assert (value.quantize(Decimal(number)), its_unit) == (Decimal(number), unit), name


def test_what_was_asked_of_the_server_is_read_too() -> None:
    vllm, guidellm, aiperf = (
        run_of(name) for name in ("vllm-0.33.0-cpu.json", "guidellm-0.8.1-cpu.json", "aiperf-0.13.0-cpu.json")
    )
    assert {run.server.model_path for run in (vllm, guidellm, aiperf)} == {"/models/tiny"}
    assert {(run.server.host, run.server.port) for run in (guidellm, aiperf)} == {("127.0.0.1", 31901)}
    assert (vllm.workload["num_prompts"], vllm.workload["max_concurrency"], vllm.date) == (16, 4, "20261201-161801")
    assert guidellm.workload == {
        "strategy": "concurrent", "max_concurrency": 4, "num_prompts": 16,
        "data": {"kind": "synthetic_text", "prompt_tokens": 32, "output_tokens": 32, "turns": 1},
    }  # fmt: skip
    assert aiperf.workload == {
        "max_concurrency": 4, "num_prompts": 16, "input_len": 32.0, "output_len": 32.0, "endpoint": "completions",
    }  # fmt: skip


def test_a_table_without_a_mapping_is_told_how_to_get_one() -> None:
    with pytest.raises(BenchmarkFileError, match="sitrep bench mapping add NAME output_throughput=COLUMN"):
        read_results(b"steps,tps\n1,85.1\n", "runs.csv")


def test_what_is_of_speech_alone_is_no_metric_of_text() -> None:
    assert "rtfx" not in values(run_of("vllm-0.33.0-cpu.json"))


def test_where_a_word_means_something_else_the_run_says_so() -> None:
    assert any("counts the time to the first token in" in note for note in run_of("guidellm-0.8.1-cpu.json").notes)


def test_a_file_that_tells_its_server_finds_the_launch_and_one_that_does_not_says_so(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": "s"}).raise_for_status()
    record = {"start": False, "command": "serve", "model": "/models/tiny", "port": 31901, "state": "exited"}
    launch = client.post("/api/v1/launches", json=record).raise_for_status().json()["id"]
    found = {}
    for name in ("guidellm-0.8.1-cpu.json", "aiperf-0.13.0-cpu.json", "vllm-0.33.0-cpu.json"):
        answer = client.post("/api/v1/benchmarks/import", params={"name": name}, content=(_FILES / name).read_bytes())
        found[name.split("-")[0]] = answer.raise_for_status().json()
    assert [found[tool]["data"][0].get("launch") for tool in ("guidellm", "aiperf", "vllm")] == [launch, launch, None]
    assert "does not tell which server it asked" in found["vllm"]["notes"][0]
