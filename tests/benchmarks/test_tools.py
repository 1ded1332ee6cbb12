"""How the tools are called, found and listened to, by what the real ones print and write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sitrepd.benchmarks.running import helps, measured, tools
from sitrepd.benchmarks.running.presets import SHIPPED
from sitrepd.benchmarks.running.progress import parse_progress
from sitrepd.benchmarks.running.target import Target
from sitrepd.errors import InvalidFact

_CAUSE = "Cannot build /v1/completions prompt: missing text_column, Bearer sk-" + "q8Wz4rTy9pLm2cVb7nXkABCD"


def program(folder: Path, name: str, text: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def wanted(
    folder: Path, name: str, flags: list[str], *, warming: bool = False, help: str | None = None
) -> tools.Wanted:
    target = Target(
        "L1", "sglang", "127.0.0.1", 30000, "/models/tiny", None, None, env={"PATH": ""},
        program=str(program(folder, name)),
    )  # fmt: skip
    return tools.Wanted(target, SHIPPED["quick"], flags, folder, warming=warming, help=help)


@pytest.mark.parametrize(
    ("printed", "progress"),
    [
        (" 25%|██▌       | 4/16 [00:00<00:01,  7.66it/s]\r 31%|███▏      | 5/16 [00:00<00:01,  6.05it/s]", (5, 16)),
        ("Profiling: 0/16 |\x1b[32m     \x1b[0m|   0% [00:00<?]\nProfiling: 4/16 |\x1b[32m██▌  \x1b[0m|  25% [00:04<00:12]", (4, 16)),
        ("Benchmark 1 (concurrent@4): started | elapsed=9.0s | successful=11 errored=2 incomplete=1 | requests/s=3", (13, None)),
        ("Running 16 requests on http://127.0.0.1:30000", (None, 16)),
        ("Loading the tokenizer 3/4", (None, None)),
    ],
)  # fmt: skip
def test_requests_done_are_read_as_each_tool_prints_them(printed: str, progress: tuple[int | None, int | None]) -> None:
    assert parse_progress(printed) == progress


def test_runs_of_vllm_say_what_prompts_they_had(tmp_path: Path) -> None:
    call = tools.call("vllm", wanted(tmp_path, "vllm", ["--random-input-len", "32"]))
    assert call.workload == {"dataset_name": "random", "random_input_len": "32", "random_output_len": "128"}
    assert "--percentile-metrics" not in call.argv
    asked = wanted(tmp_path, "vllm", [], help="--percentile-metrics M  --metric-percentiles P")
    words = tools.call("vllm", asked).argv
    assert words[words.index("--percentile-metrics") + 1] == "ttft,tpot,itl,e2el"


def test_aiperf_is_asked_for_answers_of_the_whole_length_and_the_servers_own_counts(tmp_path: Path) -> None:
    words = tools.call("aiperf", wanted(tmp_path, "aiperf", [], help="--use-server-token-count")).argv
    assert words[words.index("--extra-inputs") + 1] == "ignore_eos:true"
    assert "--use-server-token-count" in words
    assert "--use-server-token-count" not in tools.call("aiperf", wanted(tmp_path, "aiperf", [])).argv


def test_only_the_warm_up_of_guidellm_writes_a_log_of_each_request(tmp_path: Path) -> None:
    warm, run = (tools.call("guidellm", wanted(tmp_path, "guidellm", [], warming=one)) for one in (True, False))
    assert warm.env["GUIDELLM__LOGGING__LOG_FILE"] == str(tmp_path / "tool.log")
    assert not any(name.startswith("GUIDELLM__") for name in run.env)
    assert (warm.requests, run.requests) == (16, 16)


def test_the_cause_that_a_tool_has_only_in_its_own_log_is_told(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_text("ValueError: Cannot compile GenerativeMetrics: No measurement start.\n")
    assert measured.said(tmp_path).endswith("No measurement start.")
    lines = [
        {"text": "…", "record": {"exception": None, "message": "Starting benchmark"}},
        {"text": "…", "record": {"exception": {"type": "ValueError", "value": _CAUSE, "traceback": True}}},
    ]
    (tmp_path / "tool.log").write_text("\n".join(map(json.dumps, lines)) + '\n{"text": "cut sho')
    said = measured.said(tmp_path)
    assert "Its own log has last: ValueError: Cannot build /v1/completions prompt: missing text_column" in said
    assert "q8Wz4rTy9pLm2cVb7nXk" not in said


def test_a_tool_is_found_where_the_one_who_asks_has_it(tmp_path: Path) -> None:
    mine, other = program(tmp_path / "mine", "guidellm"), program(tmp_path / "other", "guidellm")
    target = Target("L1", "sglang", "127.0.0.1", 1, None, None, None, env={"PATH": ""}, path=str(mine.parent))
    assert tools.program("guidellm", target) == [str(mine), "run"]
    named = Target("L1", "sglang", "127.0.0.1", 1, None, None, None, program=str(other), path=str(mine.parent))
    assert tools.program("guidellm", named) == [str(other), "run"]
    assert tools.program("sglang", named) == [str(other), "-m", "sglang.bench_serving"]
    gone = Target("L1", "sglang", "127.0.0.1", 1, None, None, None, program=str(tmp_path / "none"))
    with pytest.raises(InvalidFact, match="is no file on this host that can be started"):
        tools.program("guidellm", gone)


def test_a_guidellm_that_is_too_old_is_refused_and_a_new_one_is_asked_again(tmp_path: Path) -> None:
    old = program(tmp_path, "guidellm", "echo Error: No such command run. >&2; exit 2")
    target = Target("L1", "sglang", "127.0.0.1", 1, None, None, None, program=str(old))
    with pytest.raises(InvalidFact, match=r"which came with 0\.8"):
        helps.help_of("guidellm", target, None, tmp_path / "options")
    new = program(tmp_path / "new", "guidellm", "echo $COLUMNS: --profile X --constraint Y")
    target = Target("L1", "sglang", "127.0.0.1", 1, None, None, None, program=str(new))
    told = helps.help_of("guidellm", target, None, tmp_path / "options")
    assert told is not None
    assert told.startswith("400: ")
    with pytest.raises(InvalidFact, match="--profil-x is no option of this version of guidellm"):
        helps.check("guidellm", ["--profil-x", "1"], told)
