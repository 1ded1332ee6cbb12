"""What benchmarks, profiles, training runs and references say in a checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.checkpoints.telling import SHIPPED, section_text, written

from sitrepd.checkpoints.render import render

SESSION = {"type": "session", "name": "s"}


def run(name: str, value: float | None, **more: Any) -> dict[str, Any]:
    metrics = {} if value is None else {"output_throughput": {"value": value, "unit": "tok/s"}}
    return {"type": "benchmark", "name": name, "metrics": metrics} | more


def sections(rendered: dict[str, Any]) -> set[str]:
    return {one["name"] for one in rendered["sections"]}


def test_the_best_names_its_command_in_one_line(tmp_path: Path) -> None:
    command = "X=1 python -m sglang.launch_server \\\n    --model-path /m \\\n  --tp 8"
    rendered = written(tmp_path, [
        SESSION, {"type": "launch", "key": "l", "command": command, "state": "exited", "cwd": "/w"},
        run("base", 88.8, baseline=True), run("fast", 94.0, launch="l", note="warm cache"),
    ])  # fmt: skip
    assert section_text(rendered, "best") == [
        "- B2 fast: 94.0 tok/s output_throughput, +5.9 % to the baseline B1 (88.8 tok/s), one run only: not known, on L1, when was not recorded; warm cache",
        "- Command of L1, which B2 ran on, in /w:",
        "```sh",
        "X=1 python -m sglang.launch_server --model-path /m --tp 8",
        "```",
    ]
    assert "  Command: under “Best configuration”" in section_text(rendered, "launches")
    assert render(rendered, "md", None, SHIPPED).count("--model-path") == 1


def test_words_and_references_of_a_started_command_can_be_pasted(tmp_path: Path) -> None:
    launch = {
        "type": "launch",
        "key": "l",
        "argv": ["serve", "--name", "it's", "--key", "${API_KEY}", "--x=${A_TOKEN} b"],
    }
    launch |= {"env": {"HF_TOKEN": "${HF_TOKEN}", "MODE": "a b"}, "state": "exited"}
    rendered = written(tmp_path, [SESSION, launch, run("base", 5, baseline=True, launch="l")])
    line = """HF_TOKEN="${HF_TOKEN}" MODE='a b' serve --name 'it'"'"'s' --key "${API_KEY}" "--x=${A_TOKEN} b\""""
    assert line in section_text(rendered, "best")


def test_what_was_not_recorded_is_said_and_not_filled(tmp_path: Path) -> None:
    rendered = written(tmp_path, [
        SESSION, {"type": "launch", "key": "l", "state": "exited"}, {"type": "launch", "command": "serve --other", "state": "ready"},
        run("base", 5, baseline=True), run("a", 9, launch="l"),
    ])  # fmt: skip
    text = "\n".join(section_text(rendered, "best"))
    assert "The command of this run was not recorded. (B2 ran on L1, which has none.)" in text
    assert "serve --other" not in text


def test_a_run_that_does_not_count_is_never_best_and_says_why(tmp_path: Path) -> None:
    rendered = written(tmp_path, [
        SESSION, run("base", 5, baseline=True), run("cheat", 50, comparable=False, note="other prompt"),
        run("long", 60, workload={"input_len": 9}),
    ])  # fmt: skip
    assert section_text(rendered, "best")[0].startswith("- B1 base: 5 tok/s output_throughput, baseline, one run")
    table = section_text(rendered, "benchmarks")
    assert "| B2 cheat | 50 tok/s |  | not comparable, other prompt |" in table
    assert any(line.startswith("| B3 long | 60 tok/s |  | ") and "workload" in line for line in table)


def test_without_a_baseline_and_with_several_workloads_none_is_best(tmp_path: Path) -> None:
    told = [SESSION, run("a", 5, workload={"n": 1}), run("b", 6, workload={"n": 2})]
    assert section_text(written(tmp_path, told), "best")[0].startswith(
        "- None is named best by output_throughput. No run"
    )


def test_what_all_runs_share_is_told_once_and_repeats_as_their_mean(tmp_path: Path) -> None:
    shared = {"config": {"tp_size": 8, "mode": "a"}, "workload": {"num_prompts": 100}}
    rendered = written(tmp_path, [
        SESSION, run("base", 80.0, baseline=True, **shared),
        run("new, run 1", 90.0, **shared | {"config": {"tp_size": 8, "mode": "b"}}),
        run("new, run 2", 91.0, **shared | {"config": {"tp_size": 8, "mode": "b"}}),
    ])  # fmt: skip
    assert section_text(rendered, "benchmarks") == [
        "| B1 base | 80.0 tok/s |  | baseline, mode=a |",
        "| B2, B3 new | 90.5 tok/s | +13.1 % | best, mean of 2 runs, values 90.0, 91.0, mode=b |",
        "- In all rows: tp_size=8; workload num_prompts=100",
        "- When these were measured was not recorded: B1, B2, B3",
    ]


def test_the_metric_of_the_session_decides_and_the_others_are_told_too(tmp_path: Path) -> None:
    metrics = {"mean_ttft_ms": 120.50, "output_throughput": 50, "odd": {"value": 3, "unit": "x"}}
    told = [
        SESSION | {"best_metric": "mean_ttft_ms"},
        {"type": "benchmark", "name": "base", "baseline": True, "metrics": {"mean_ttft_ms": 150.0}, "tool": "bench"},
        {"type": "benchmark", "name": "quick", "metrics": metrics, "artifact": "/r.jsonl"},
        run("other", 70, comparable=False),
    ]
    rendered = written(tmp_path, told)
    assert section_text(rendered, "best")[0].startswith("- B2 quick: 120.5 ms mean_ttft_ms, -19.7 % to the baseline B1")
    table = section_text(rendered, "benchmarks")
    assert "- B2: output_throughput 50, odd 3 x; raw result /r.jsonl" in table
    assert "- B1: no other figures; by bench" in table
    assert "- B3 other (not comparable): output_throughput 70 tok/s" in table
    assert "- Without mean_ttft_ms: B3." in table


def test_many_runs_are_bounded_and_the_rest_is_counted(tmp_path: Path) -> None:
    runs = [run(f"cfg {n}", 50 + n % 7, config={"n": n}) for n in range(260)]
    rendered = written(tmp_path, [SESSION, run("base", 50, baseline=True), *runs])
    section = next(one for one in rendered["sections"] if one["name"] == "benchmarks")
    rows = [item for item in section["items"] if item["kind"] == "row"]
    assert 200 <= len(rows) <= 240
    assert rows[0]["ids"] == ["B1"]
    assert section["data"]["earlier"] == 261 - sum(len(item["ids"]) for item in rows)
    best = section_text(rendered, "best")
    assert len([line for line in best if "as good" not in line]) == 6
    assert best[-1].startswith("- 34 more runs are as good: B29, ")
    small = render(rendered, "md", 3000, SHIPPED)
    assert "| B1 base | 50 tok/s |" in small
    assert "earlier ones" in small or "of Benchmarks (`sitrep bench list`)" in small


def test_what_all_rows_share_may_be_the_workload_alone(tmp_path: Path) -> None:
    told = [run(f"cfg {n}", 50 + n, config={"n": n}, workload={"input_len": 4096}) for n in range(2)]
    rendered = written(tmp_path, [SESSION, *told])
    assert "- In all rows: workload input_len=4096" in section_text(rendered, "benchmarks")


def test_profiles_trainings_and_references(tmp_path: Path) -> None:
    phases = [{"name": "verify", "calls": 400, "total_ms": 8204.1, "mean_ms": 20.50}, {"name": "draft"}]
    points = [{"epoch": n, "step": 10 * n, "metrics": {"accept_rate": 0.4}} for n in range(15)]
    rendered = written(tmp_path, [
        SESSION, {"type": "launch", "key": "l", "state": "exited"}, {"type": "model", "key": "m", "name": "drafter"},
        {"type": "profile", "launch": "l", "phases": phases},
        {"type": "training", "name": "t", "model": "m", "points": points, "data": {"rows": 100}, "note": "slow"},
        {"type": "training", "model": "/some/path", "points": [{"step": 5, "metrics": {"loss": {"value": 1.25, "unit": "nat"}}}]},
        {"type": "reference", "name": "paper", "source": "them", "metrics": {"lr": 1e-05, "tps": {"value": 100, "unit": "tok/s"}}, "note": "n"},
    ])  # fmt: skip
    assert section_text(rendered, "profiles") == ["- P1 of L1: verify 400 calls total 8204.1 ms mean 20.5 ms; draft"]
    recent, early = section_text(rendered, "training")
    assert recent == "- T2, model /some/path; step 5: loss 1.25 nat"
    assert early.startswith(
        '- T1 t, model M1 drafter, data {"rows": 100}; the last of 15 points; epoch 3 step 30: accept_rate 0.4;'
    )
    assert early.endswith("epoch 14 step 140: accept_rate 0.4; slow")
    short = render(rendered, "md", 2000, SHIPPED)
    assert "; the last 3 of 15 points; epoch 12 step 120: accept_rate 0.4; epoch 13 step" in short
    assert section_text(rendered, "references") == ["- R1 paper, from them: lr 1e-05, tps 100 tok/s — n"]


def test_a_sweep_tells_what_became_of_its_trials(tmp_path: Path) -> None:
    rendered = written(tmp_path, [
        SESSION, {"type": "sweep", "key": "w", "name": "steps", "state": "running", "parameters": {"n": [1, 2]}},
        {"type": "launch", "key": "l", "state": "exited"}, run("a", 5) | {"key": "b"},
        {"type": "trial", "sweep": "w", "launch": "l", "benchmarks": ["b"], "state": "done"},
        {"type": "trial", "sweep": "w", "state": "planned"},
    ])  # fmt: skip
    assert section_text(rendered, "sweeps") == [
        "- W1 steps (running): 1 of 2 trials over",
        "  - Best so far by output_throughput: a trial, 5 tok/s, one run; B1",
        "- Trials of W1: 2",
        "  - a trial: done L1 B1; 5 tok/s, one run",
        "  - a trial: planned",
        "  - Parameters: n 1, 2",
    ]


def test_nothing_is_said_where_there_is_nothing(tmp_path: Path) -> None:
    assert sections(written(tmp_path, [SESSION])) == {"now", "goal"}


def test_a_row_that_a_table_cannot_hold_stands_after_it(tmp_path: Path) -> None:
    rendered = written(
        tmp_path, [SESSION, run("base | old", 5, baseline=True), run("a", 6), run("b", 7, note="x | y"), run("c", 4)]
    )
    assert section_text(rendered, "benchmarks") == [
        "| B2 a | 6 tok/s | +20.0 % |  |",
        "| B4 c | 4 tok/s | -20.0 % |  |",
        "- B1 base | old; 5 tok/s; baseline",
        "- B3 b; 7 tok/s; +40.0 %; best, one run, x | y",
        "- When these were measured was not recorded: B1, B2, B3, B4",
    ]


def test_a_run_without_a_name_is_called_by_its_id_once(tmp_path: Path) -> None:
    told = {"type": "benchmark", "baseline": True, "metrics": {"output_throughput": {"value": 5, "unit": "tok/s"}}}
    rendered = written(tmp_path, [SESSION, told])
    assert section_text(rendered, "best")[0].startswith("- B1: 5 tok/s")
    assert section_text(rendered, "benchmarks")[0] == "| B1 | 5 tok/s |  | baseline, best, one run |"


def test_lists_and_mappings_are_json_and_nothing_in_them_is_escaped(tmp_path: Path) -> None:
    told = {"cmd": "a 'b' > c & <d>", "n": [1, None, True]}
    rendered = written(
        tmp_path,
        [
            SESSION,
            {"type": "sweep", "template": told},
            {"type": "training", "data": told, "points": [{"step": 1, "metrics": {"loss": 2.5}}]},
        ],
    )
    line = """{"cmd": "a 'b' > c & <d>", "n": [1, null, true]}"""
    assert section_text(rendered, "sweeps") == ["- W1", "  - Template: cmd=a 'b' > c & <d>, n=[1, null, true]"]
    assert section_text(rendered, "training") == [f"- T1, data {line}; step 1: loss 2.5"]


def test_a_value_says_when_it_was_measured_and_on_which_launch(tmp_path: Path) -> None:
    rendered = written(tmp_path, [
        SESSION, {"type": "launch", "key": "l", "state": "exited"},
        run("base", 5, baseline=True, at="2026-11-30T01:00:00Z"),
        run("fast", 6, launch="l", at="2026-12-01T01:10:47Z"), run("slow", 4),
    ])  # fmt: skip
    best = render(rendered, "md", None, SHIPPED).split("## Best configuration\n")[1]
    told = "one run only: not known, on L1, as of 2026-12-01T01:10:47Z (2 h 10 min before)"
    assert best.startswith(f"- B2 fast: 6 tok/s output_throughput, +20.0 % to the baseline B1 (5 tok/s), {told}")
    table = section_text(rendered, "benchmarks")
    assert "| B2 fast | 6 tok/s | +20.0 % | best, one run, on L1, as of 2026-12-01T01:10:47Z |" in table
    assert "- When these were measured was not recorded: B3" in table


def test_the_command_of_the_best_run_stays_with_it_where_its_launch_is_alive(tmp_path: Path) -> None:
    rendered = written(tmp_path, [
        SESSION, {"type": "launch", "key": "l", "command": "serve --tp 8", "state": "ready"},
        run("base", 5, baseline=True), run("fast", 6, launch="l"), run("as fast", 6, launch="l"),
    ])  # fmt: skip
    assert section_text(rendered, "best")[1:5] == ["- Command of L1, which B2 ran on:", "```sh", "serve --tp 8", "```"]
    assert section_text(rendered, "now")[0].endswith("; its command stands under “Best configuration”")
    assert render(rendered, "md", None, SHIPPED).count("serve --tp 8") == 1
    best = next(one for one in rendered["sections"] if one["name"] == "best")["items"]
    assert [item.get("priority", 4) for item in best] == [4, 4, 8]
