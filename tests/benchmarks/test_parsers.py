from __future__ import annotations

import hashlib
import json
from decimal import Decimal
from pathlib import Path

import pytest

from sitrepd.benchmarks.parsers import BenchmarkFileError, ParsedBenchmark, read_results

DATA = Path(__file__).parents[1] / "data" / "bench"
BASE, TWO, THREE, RUST = (
    DATA / name
    for name in (
        "sglang-0.5.16-base.jsonl", "sglang-0.5.16-eagle3-2-steps.jsonl",
        "sglang-0.5.16-eagle3-3-steps.jsonl", "sglang-0.5.23-rust-client.jsonl",
    )
)  # fmt: skip
KEY = "q8Wz" + "4rTy" + "9pLm" + "2cVb" + "7nXk"


def _read(path: Path) -> ParsedBenchmark:
    [result] = read_results(path.read_bytes(), path.name)
    return result


def _metric(result: ParsedBenchmark, name: str) -> tuple[str, str | None, str | None]:
    [found] = [m for m in result.metrics if m.name == name]
    return str(found.value), found.unit, found.better


def _line(**changes: object) -> str:
    """A small result; a value of None leaves the field out."""
    fields: dict[str, object] = {
        "tag": None, "backend": "sglang", "dataset_name": "random-ids", "request_rate": float("inf"),
        "max_concurrency": 4, "duration": 2.5, "completed": 24, "output_throughput": 94.0, "median_ttft_ms": 1421.7,
    }  # fmt: skip
    fields |= {name: value for name, value in changes.items() if name != "absent"}
    return json.dumps({name: value for name, value in fields.items() if name not in changes.get("absent", ())})  # type: ignore[operator]


def _error(data: bytes | str) -> BenchmarkFileError:
    with pytest.raises(BenchmarkFileError) as raised:
        read_results(data.encode() if isinstance(data, str) else data, "run.jsonl")
    return raised.value


def test_numbers_stay_as_they_were_printed() -> None:
    result = _read(BASE)
    assert _metric(result, "output_throughput") == ("660.761285652861", "tok/s", "higher")
    assert _metric(result, "median_ttft_ms") == ("19.805146500019077", "ms", "lower")
    assert _metric(result, "request_throughput") == ("10.055973909745507", "req/s", "higher")
    assert _metric(result, "max_output_tokens_per_s") == ("782.0", "tok/s", "higher")
    assert _metric(result, "total_output_tokens") == ("1577", "tokens", None)
    [small] = read_results(_line().encode(), "x")
    assert _metric(small, "output_throughput") == ("94.0", "tok/s", "higher")
    assert _metric(small, "median_ttft_ms") == ("1421.7", "ms", "lower")


def test_every_measured_field_of_the_recordings_is_a_metric_with_a_unit() -> None:
    for path in (BASE, TWO, THREE, RUST):
        document = json.loads(path.read_text())
        asked = {"backend", "protocol", "dataset_name", "request_rate", "max_concurrency", "random_input_len",
                 "random_output_len", "random_range_ratio"}  # fmt: skip
        measured = {k for k, v in document.items() if v is not None} - asked - {"server_info", "tag"}
        result = _read(path)
        assert {m.name for m in result.metrics} == measured
        assert [m.name for m in result.metrics if m.unit is None] == []


def test_the_configuration_is_what_the_server_resolved() -> None:
    base, two = _read(BASE).config, _read(TWO).config
    assert base["speculative_algorithm"] is None
    assert "speculative_num_steps" not in base
    assert {k: v for k, v in two.items() if k.startswith("speculative_")} == {
        "speculative_algorithm": "EAGLE3", "speculative_num_steps": 2, "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 3, "speculative_draft_model_path": "/models/draft",
    }  # fmt: skip
    assert (two["tp_size"], two["mem_fraction_static"], two["attention_backend"]) == (1, 0.5, "triton")
    assert two["sglang_version"] == "0.5.16"
    assert "random_seed" not in two
    assert "port" not in two
    assert len(two) < 30


def test_names_are_proposed() -> None:
    assert [_read(path).name for path in (BASE, TWO, THREE, RUST)] == [
        "no speculation", "EAGLE3, 2 steps", "EAGLE3, 3 steps", "smoke",
    ]  # fmt: skip
    assert read_results(_line().encode(), "/x/nccl-tuned.jsonl")[0].name == "nccl-tuned"


def test_the_workload_is_the_same_for_the_same_question() -> None:
    assert _read(BASE).workload == _read(TWO).workload == _read(THREE).workload
    assert _read(BASE).workload == {
        "backend": "sglang", "dataset_name": "random-ids", "request_rate": "inf", "max_concurrency": 4,
        "random_input_len": 256, "random_output_len": 128, "random_range_ratio": 0.0,
    }  # fmt: skip
    assert _read(RUST).workload["request_rate"] == "inf"


def test_facts_lead_to_the_launch() -> None:
    server = _read(TWO).server
    assert (server.port, server.model_path, server.version) == (8000, "/models/target", "0.5.16")
    assert server.random_seed == 729052304
    assert server.draft_model_path == "/models/draft"
    command = _read(RUST).server.launch_command
    assert command is not None
    assert command.startswith("--model-path /models/tiny --load-format dummy")


def test_tools_and_notes() -> None:
    assert [_read(p).tool for p in (BASE, RUST)] == ["sglang.bench_serving", "sglang.benchmark.rust_client"]
    assert _read(BASE).notes == ()
    assert "since the server started" in _read(TWO).notes[0]
    assert read_results(_line().encode(), "x")[0].notes == ("The file does not say which settings the server had.",)


def test_the_digest_is_of_the_whole_file_and_every_line_counts() -> None:
    data = f"{_line(tag='a')}\n\n{_line(tag='b')}\r\n{_line(tag='c')}".encode()
    results = read_results(data, "x.jsonl")
    assert [(r.name, r.line) for r in results] == [("a", 1), ("b", 3), ("c", 4)]
    assert {r.digest for r in results} == {hashlib.sha256(data).hexdigest()}


def test_keys_of_the_server_are_gone() -> None:
    info = {
        "model_path": "/models/a", "api_key": KEY, "admin_api_key": KEY, "speculative_algorithm": None, "port": 30000,
        "launch_command": f"--model-path /models/a --api-key {KEY} --admin-api-key={KEY}",
        "json_model_override_args": json.dumps({"api_key": KEY}),
        "internal_states": [{"api_key": KEY}],
    }  # fmt: skip
    line = _line(
        server_info=info,
        tag=f"with --api-key {KEY}",
        note=f"Authorization: Bearer {KEY}",
        errors=["", f"401 Unauthorized, sent: Authorization: Bearer {KEY}"],
    )
    [result] = read_results(line.encode(), "x")
    assert (
        result.server.launch_command == "--model-path /models/a --api-key ${API_KEY} --admin-api-key=${ADMIN_API_KEY}"
    )
    assert KEY not in repr(result)


def test_an_error_shows_no_key() -> None:
    assert KEY not in str(_error('{"backend": "sglang", "api_key": "' + KEY + '", x}'))
    assert KEY not in str(_error("--api-key " + KEY))


def test_infinity_and_nan_in_all_their_spellings() -> None:
    text = _line(request_rate="inf", std_itl_ms=float("nan"), p99_itl_ms="NaN", mean_itl_ms=float("inf"))
    [result] = read_results(text.encode(), "x")
    assert result.workload["request_rate"] == "inf"
    assert {m.name for m in result.metrics} == {"duration", "completed", "output_throughput", "median_ttft_ms"}
    assert result.notes[0] == "Not measured (NaN or infinite in the file): std_itl_ms, p99_itl_ms, mean_itl_ms."
    json.dumps([result.config, result.workload], allow_nan=False)


def test_details_and_reports_of_later_versions() -> None:
    text = _line(
        input_lens=[1, 2], output_lens=[3, 4], generated_texts=["a prompt of somebody", ""], errors=["", "timed out"],
        cache_report={"cache_hit_rate_pct": 12.5, "storage_backend": None, "total_cached_tokens": 7},
        goodput_slos_ms={"ttft": 200.0}, request_goodput=3.5, slo_attainment=0.9,
        slo_attainment_by_metric={"ttft": 0.9},
        a_field_of_tomorrow=17.0,
    )  # fmt: skip
    [result] = read_results(text.encode(), "x")
    assert _metric(result, "failed") == ("1", "requests", "lower")
    assert _metric(result, "cache_report.cache_hit_rate_pct") == ("12.5", "%", "higher")
    assert _metric(result, "cache_report.total_cached_tokens") == ("7", "tokens", None)
    assert _metric(result, "request_goodput") == ("3.5", "req/s", "higher")
    assert _metric(result, "slo_attainment_by_metric.ttft") == ("0.9", None, "higher")
    assert _metric(result, "a_field_of_tomorrow") == ("17.0", None, None)
    assert result.workload["goodput_slos_ms"] == {"ttft": 200.0}
    assert result.notes[-1] == "1 of 2 requests failed, the first with: timed out"
    assert "somebody" not in repr(result)


def test_a_result_of_0_4_6_without_server_info() -> None:
    [result] = read_results(_line(absent=["tag"], accept_length=None, total_input=17).encode(), "x.jsonl")
    assert result.config == {}
    assert _metric(result, "total_input") == ("17", "tokens", None)


def test_an_indented_file_is_read_too() -> None:
    document = json.loads(_line())
    assert len(read_results(json.dumps(document, indent=2).encode(), "x")) == 1
    assert len(read_results(json.dumps([document, document], indent=2).encode(), "x")) == 2


@pytest.mark.parametrize("keep", [0.02, 0.3, 0.7, 0.999])
def test_a_file_that_is_cut_short(keep: float) -> None:
    whole = BASE.read_text().rstrip()
    error = _error(whole + "\n" + whole[: int(len(whole) * keep)])
    assert error.line == 2
    assert "cut short" in error.wrong
    assert "copy it again" in error.wanted
    assert str(error).startswith("run.jsonl, line 2: the line is cut short after")


def test_every_place_where_a_line_can_be_cut() -> None:
    whole = _line(std_itl_ms=float("-inf"), tag="a \\ \u00e9", server_info={"a": [True, None], "b": {}})
    reasons = {_error(whole[:end]).wrong[:21] for end in range(1, len(whole))}
    assert reasons == {"the line is cut short"}


@pytest.mark.parametrize(
    ("data", "line", "wrong"),
    [
        ("", None, "the file is empty"),
        (" \n\n", None, "the file is empty"),
        ("Namespace(backend='sglang')\n", 1, "not JSON: Expecting value at character 1, before \"Namespace(backend="),
        (_line() + "\n" + _line() + " trailing\n", 2, "not JSON: Extra data"),
        (_line() + "\nnull\n", 2, "this is the value 'None'"),
        (_line() + "\n[1]\n", 2, "this is a list"),
        ('{"run_name": "x", "batch_size": 1}', 1, "the object has batch_size, run_name, which no tool"),
        ("{}", 1, "the object has nothing, which no tool"),
        (_line(completed=0, output_throughput=0.0), 1, "no request was completed"),
        (_line(completed=0, mean_ttft_ms=float("nan")), 1, "no request was completed"),
        (_line(output_throughput="fast"), 1, "output_throughput is fast"),
        (_line(output_throughput=True), 1, "output_throughput is True"),
        (_line(output_throughput=float("nan")), 1, "output_throughput is NaN"),
        (_line(duration=-2), 1, "duration is -2"),
        (_line(median_ttft_ms="n/a"), 1, "median_ttft_ms is n/a"),
        (_line().replace("94.0", "1e999"), 1, "output_throughput is 1E+999"),
        ("[" * 100_000, 1, "not readable as JSON"),
        (b"\x89PNG\r\n\x1a\n", 1, "byte 0 of the file, 0x89, is not UTF-8"),
        (_line().encode() + b"\n\xff", 2, "0xff, is not UTF-8"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_says_where_and_why(data: bytes | str, line: int | None, wrong: str) -> None:
    error = _error(data)
    assert error.line == line
    assert wrong in error.wrong
    assert error.wanted
    assert error.status == 422


def test_one_bad_line_among_good_ones_leaves_nothing() -> None:
    assert _error("\n".join([_line(), _line(completed=0), _line()])).line == 2


def test_a_byte_order_mark_is_no_error() -> None:
    [result] = read_results(b"\xef\xbb\xbf" + _line().encode(), "x")
    assert [m.value for m in result.metrics if m.name == "output_throughput"] == [Decimal("94.0")]
