"""Results of other tools than bench_serving, as their own sources write them; and one's own by a mapping."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from sitrepd.benchmarks.metrics import metric
from sitrepd.benchmarks.parsers import BenchmarkFileError, ParsedBenchmark, read_results
from sitrepd.benchmarks.parsers.mapped import read_mapped
from sitrepd.benchmarks.running.during import During
from sitrepd.benchmarks.running.mappings import Mapping
from sitrepd.benchmarks.running.measured import completed

VLLM: dict[str, Any] = {
    "date": "20261101-101500", "backend": "openai", "endpoint_type": "openai", "label": None, "model_id": "meta/llama",
    "tokenizer_id": "meta/llama", "num_prompts": 24, "request_rate": "inf", "burstiness": 1.0, "max_concurrency": 4,
    "duration": 12.5, "completed": 23, "failed": 1, "total_input_tokens": 6144, "total_output_tokens": 2944,
    "request_throughput": 1.84, "request_goodput": None, "output_throughput": 235.52, "total_token_throughput": 727.04,
    "mean_ttft_ms": 41.2, "median_ttft_ms": 40.0, "p99_ttft_ms": 61.5, "mean_e2el_ms": 900.5, "p99_e2el_ms": 1200.25,
    "spec_decode_acceptance_rate": 47.5, "spec_decode_acceptance_length": 2.25, "errors": ["", "boom"], "ttfts": [0.04],
}  # fmt: skip


def distribution(mean: float, **more: float) -> dict[str, Any]:
    told = {"mean": mean, "median": mean, "std_dev": 1.5, "total_sum": 100.0, "percentiles": {"p90": 3.0, "p99": 4.0}}
    return {"successful": told | more, "errored": {"mean": 99.0}, "total": {"mean": 99.0}}


GUIDELLM: dict[str, Any] = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1"},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": streams}, "backend": {"model": "meta/llama"}},
            "duration": 30.5,
            "metrics": {
                "request_totals": {"successful": 16, "errored": 2, "incomplete": 0, "total": 18},
                "requests_per_second": distribution(1.5), "output_tokens_per_second": distribution(94.5 * streams),
                "request_latency": distribution(2.5), "time_to_first_token_ms": distribution(41.5),
                "inter_token_latency_ms": distribution(10.25), "output_token_count": distribution(128.0),
            },
        }
        for streams in (1, 4)
    ],
}  # fmt: skip
AIPERF: dict[str, Any] = {
    "schema_version": "1.4",
    "request_throughput": {"unit": "requests/sec", "avg": 1.5},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 94.25},
    "time_to_first_token": {"unit": "ms", "avg": 41.5, "p50": 40.0, "p99": 60.0, "std": 2.0},
    "request_latency": {"unit": "s", "avg": 2.5, "p50": 2.25},
    "benchmark_duration": {"unit": "sec", "avg": 12.5},
    "request_count": {"unit": "requests", "avg": 16.0},
    "error_request_count": {"unit": "requests", "avg": 2.0},
    "input_config": {"endpoint": {"model_names": ["meta/llama"], "type": "chat"}, "loadgen": {"concurrency": 4}},
    "was_cancelled": False,
}
ONE_BATCH: dict[str, Any] = {
    "run_name": "default", "batch_size": 8, "input_len": 1024, "output_len": 16, "latency": 1.25,
    "input_throughput": 8000.5, "output_throughput": 102.4, "overall_throughput": 6656.0, "last_ttft": 0.5,
    "last_gen_throughput": 101.0, "acc_length": -1,
}  # fmt: skip
SPECFORGE: dict[str, Any] = {
    "model": "drafts/eagle3",
    "mtbench": [
        {
            "batch_size": 1, "steps": steps, "topk": 1, "num_draft_tokens": steps + 1, "num_samples": 80,
            "metrics": [
                {"latency": 60.5, "output_throughput": 90.5 + repeat, "accept_length": 2.25, "accuracy": None,
                 "num_questions": 80, "num_valid_predictions": 0, "categorical_performance": None}
                for repeat in range(2)
            ],
        }
        for steps in (0, 3)
    ],
}  # fmt: skip


def read(told: Any) -> list[ParsedBenchmark]:
    return read_results(json.dumps(told).encode(), "result.json")


def values(run: ParsedBenchmark) -> dict[str, str]:
    return {one.name: str(one.value) for one in run.metrics}


def test_vllm() -> None:
    [run] = read(VLLM)
    found = values(run)
    assert (run.tool, run.server.model_path) == ("vllm bench serve", "meta/llama")
    assert (found["output_throughput"], found["total_throughput"], found["median_ttft_ms"]) == (
        "235.52",
        "727.04",
        "40.0",
    )
    assert (found["mean_e2e_latency_ms"], found["p99_e2e_latency_ms"]) == ("900.5", "1200.25")
    assert (Decimal(found["accept_rate"]), found["accept_length"], found["failed"]) == (Decimal("0.475"), "2.25", "1")
    assert run.workload == {
        "backend": "openai", "endpoint_type": "openai", "num_prompts": 24, "request_rate": "inf", "burstiness": 1.0,
        "max_concurrency": 4,
    }  # fmt: skip
    assert not {"ttfts", "errors", "date"} & set(found)


def test_a_run_of_ours_has_the_settings_of_its_launch_where_the_tool_knows_none() -> None:
    settings = {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 2,
        "tp_size": 8,
        "dp_size": 1,
        "log_level": "info",
    }
    during = During((metric("accept_length", Decimal("2.10")),), source="its log")
    run = completed(read(VLLM)[0], 24, during, {"config": {"NCCL_ALGO": "Ring"}}, settings)
    wanted = {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 2, "tp_size": 8, "NCCL_ALGO": "Ring"}
    assert run.config == wanted
    assert values(run)["accept_length"] == "2.10"
    assert run.notes == ("Model: meta/llama.", "accept_length: of this run, by its log.")


def test_requests_that_vllm_does_not_count_as_failed_are_the_rest() -> None:
    old = {name: value for name, value in VLLM.items() if name not in ("failed", "errors")}
    assert values(read(old)[0])["failed"] == "1"


def test_guidellm_has_a_run_for_each_benchmark() -> None:
    first, second = read(GUIDELLM)
    assert (first.workload["max_concurrency"], second.workload["max_concurrency"]) == (1, 4)
    found = values(second)
    assert (found["output_throughput"], found["completed"], found["failed"]) == ("378.0", "16", "2")
    assert (found["mean_ttft_ms"], found["p99_ttft_ms"], found["std_ttft_ms"]) == ("41.5", "4.0", "1.5")
    assert Decimal(found["mean_e2e_latency_ms"]) == 2500
    assert second.server.model_path == "meta/llama"


def test_aiperf_is_read_by_its_units() -> None:
    [run] = read(AIPERF)
    found = {name: Decimal(value) for name, value in values(run).items()}
    assert (found["output_throughput"], found["completed"], found["failed"]) == (Decimal("94.25"), 16, 2)
    assert (found["mean_ttft_ms"], found["median_ttft_ms"], found["mean_e2e_latency_ms"]) == (Decimal("41.5"), 40, 2500)
    assert run.workload == {"max_concurrency": 4, "endpoint": "chat"}


def test_one_batch() -> None:
    [run] = read(ONE_BATCH)
    assert run.workload == {"batch_size": 8, "input_len": 1024, "output_len": 16}
    assert values(run)["output_throughput"] == "102.4"
    assert "accept_length" not in values(run)
    [run] = read(ONE_BATCH | {"acc_length": 2.5})
    assert values(run)["accept_length"] == "2.5"
    assert "since the server started" in " ".join(run.notes)


def test_specforge_has_a_run_for_each_repeat_of_each_configuration() -> None:
    runs = read(SPECFORGE)
    assert [run.config.get("speculative_num_steps") for run in runs] == [None, None, 3, 3]
    assert runs[0].config == {}
    assert runs[2].config["speculative_num_draft_tokens"] == 4
    assert runs[2].workload == {"dataset_name": "mtbench", "batch_size": 1, "num_samples": 80}
    assert [values(run)["output_throughput"] for run in runs] == ["90.5", "91.5", "90.5", "91.5"]


def changed(told: dict[str, Any], **more: Any) -> dict[str, Any]:
    return json.loads(json.dumps(told)) | more


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        (changed(VLLM, completed=0), "no request was completed"),
        (changed(VLLM, output_throughput=float("nan")), "output_throughput is not a finite number"),
        (changed(VLLM, duration=-1), "duration is -1"),
        (changed(ONE_BATCH, output_throughput=float("inf")), "output_throughput is not a finite number"),
        (changed(AIPERF, is_complete=False, incomplete_reason="records stalled"), "not complete: records stalled"),
        (changed(AIPERF, was_cancelled=True), "not complete: it was cancelled"),
        (changed(AIPERF, time_to_first_token={"unit": "fortnights", "avg": 1}), "time_to_first_token is in 'fortnights'"),
        (changed(AIPERF, request_count={"unit": "requests", "avg": 0}), "no request was completed"),
        (changed(AIPERF, output_token_throughput=None), "it has no output_throughput"),
        ({"benchmarks": [{"metrics": {}}]}, "it has no output_throughput"),
        ({"benchmarks": [{"metrics": 3}]}, "a benchmark of the report has no metrics"),
        ({"model": "m", "gsm8k": [{"metrics": [], "num_draft_tokens": 1}]}, "gsm8k has no metrics"),
    ],
)  # fmt: skip
def test_what_measured_nothing_is_refused(told: Any, wrong: str) -> None:
    with pytest.raises(BenchmarkFileError) as raised:
        read(told)
    assert wrong in raised.value.wrong
    assert "Nothing was stored" in raised.value.detail


def test_runs_of_two_versions_in_one_file_are_refused_unless_they_are_meant() -> None:
    lines = b"\n".join(json.dumps(one).encode() for one in (ONE_BATCH, VLLM))
    with pytest.raises(BenchmarkFileError) as raised:
        read_results(lines, "all.jsonl", mixed=False)
    assert raised.value.line == 2
    assert "this line is of vllm bench serve, and line 1 is of sglang.bench_one_batch_server" in raised.value.wrong
    assert "--mixed" in raised.value.wanted
    assert len(read_results(lines, "all.jsonl")) == 2


# --- mappings --------------------------------------------------------------------------------------------------------

MINE = Mapping.model_validate({
    "metrics": {"output_throughput": "tok/s", "median_ttft_ms": "ttft*1000", "energy": "joules [J]"},
    "config": {"steps": "args.steps"}, "label": "name",
}).model_dump()  # fmt: skip


def test_csv_by_a_mapping() -> None:
    text = "\ufeffname;tok/s;ttft;joules;args.steps\n2 steps;94.50;0.25;12;2\nbase;88.8;0.31;11;0\n"
    first, second = read_mapped(text.encode(), "mine.csv", MINE)
    assert [(one.name, str(one.value), one.unit) for one in first.metrics] == [
        ("output_throughput", "94.50", "tok/s"), ("median_ttft_ms", "250.00", "ms"), ("energy", "12", "J"),
    ]  # fmt: skip
    assert (first.name, first.config, second.name, second.line) == ("2 steps", {"steps": 2}, "base", 3)


def test_json_by_a_mapping() -> None:
    rows = [{"tok/s": 94.5, "ttft": "0.25", "joules": 1, "args": {"steps": 2}}]
    [run] = read_mapped(json.dumps({"all": {"rows": rows}}).encode(), "x.json", MINE | {"rows": "all.rows"})
    assert (values(run)["output_throughput"], run.config) == ("94.5", {"steps": 2})


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ("name,tok/s\nx,1\n", "it has no ttft (for median_ttft_ms); it has name, tok/s"),
        ("tok/s,ttft,joules\n94 tok/s,1,1\n", "tok/s (for output_throughput) is no number"),
        ("tok/s,ttft,joules\n94,NaN,1\n", "median_ttft_ms is not a finite number"),
        ("tok/s,ttft,joules\n94,1\n", "the row has fewer fields"),
        ("tok/s,ttft,joules\n94,1,2,3\n", "the row has more fields"),
        ("tok/s,ttft,joules\n-94,1,2\n", "output_throughput is -94"),
        ("tok/s,ttft,joules\n", "it has no rows"),
    ],
)  # fmt: skip
def test_what_does_not_fit_the_mapping_is_named(body: str, wrong: str) -> None:
    with pytest.raises(BenchmarkFileError) as raised:
        read_mapped(body.encode(), "mine.csv", MINE)
    assert wrong in raised.value.wrong


@pytest.mark.parametrize("written", ["1e999999999", "9" * 20_000, "-1e999999999"])
def test_a_number_beyond_all_others_is_infinite_wherever_it_stands(written: str) -> None:
    aiperf = f'{{"request_throughput": {{"unit": "r/s", "avg": {written}}}, "output_token_throughput": {{"avg": 1.5}}}}'
    (run,) = read_results(aiperf.encode(), "r.json")
    assert [str(one.value) for one in run.metrics] == ["1.5"]
    for body in (f'{{"a": {written}}}', f"a,b\n{written},1\n", '{"a": "snan"}'):
        with pytest.raises(BenchmarkFileError, match="x is not a finite number"):
            read_mapped(body.encode(), "mine.csv" if "," in body else "mine.json", {"metrics": {"x": "a*1000"}})
    (small,) = read_mapped(b'{"a": 1e-999999999}', "mine.json", {"metrics": {"x": "a*1000"}})
    assert small.metrics[0].value == 0


def test_a_source_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="is no path"):
        Mapping.model_validate({"metrics": {"a": "b*c"}})
