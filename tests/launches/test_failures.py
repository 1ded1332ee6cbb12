"""Which cause a failed start is said to have."""

from __future__ import annotations

from datetime import UTC

import pytest
from tests.launches.reading import SEEN, feed, only, read_log

from sitrepd.launches.engines.base import Failed, LogEvent, PortTaken, Stopping, Warned
from sitrepd.launches.engines.sglang import SglangEngine

TRACE = "Traceback (most recent call last):"


def _finished(lines: list[str]) -> list[LogEvent]:
    parser = SglangEngine().parser(tz=UTC)
    return feed(lines, parser) + parser.finish(SEEN)


def _stamped(message: str, rank: str = "") -> str:
    return f"[2026-12-01 01:00:00{rank}] {message}"


@pytest.mark.parametrize(
    ("name", "where", "rank", "phase", "cause"),
    [
        (
            "h200-0.5.16-fail-context-len",
            "process",
            "",
            "starting",
            "ValueError: Warning: User-specified context_length",
        ),
        (
            "h200-0.5.16-fail-draft-hidden",
            "scheduler",
            "",
            "load_draft_weights",
            "AssertionError: Attempted to load weight",
        ),
        (
            "h200-0.5.16-fail-gpu-occupied",
            "scheduler",
            "",
            "load_weights",
            "torch.OutOfMemoryError: CUDA out of memory.",
        ),
        ("h200-0.5.16-fail-memfraction", "scheduler", "", "kv_cache", "ValueError: Loaded weights leave no GPU memory"),
        (
            "h200-0.5.16-fail-tp8-one-gpu",
            "scheduler",
            "TP4",
            "dist_init",
            "torch.AcceleratorError: CUDA error: invalid",
        ),
        (
            "h200-0.5.16-fail-truncated-shard",
            "scheduler",
            "",
            "load_weights",
            "safetensors._safetensors_rust.Safetensor",
        ),
        ("cpu-0.5.23-corrupt-shard", "scheduler", "", "load_weights", "safetensors._safetensors_rust.SafetensorError"),
        ("cpu-0.5.23-eagle3-fail", "scheduler", "", "kv_cache", "RuntimeError: 0 active drivers ([])."),
        ("cpu-0.5.23-model-path-missing", "process", "", "starting", "OSError: Repo id must be in the form"),
        ("cpu-0.5.23-tp2-kv-heads", "scheduler", "TP1", "load_weights", "RuntimeError: start (64) + length (64)"),
        ("cpu-0.5.23-tp2-rank-killed-serving", "scheduler", "TP0", "", "RuntimeError: [/__w/pytorch/pytorch/third_"),
        ("cpu-0.5.23-tp2-ranks", "scheduler", "TP0", "dist_init", "ValueError: Expected a cuda device, but got: cpu"),
    ],
)
def test_first_cause_of_recorded_failures(name: str, where: str, rank: str, phase: str, cause: str) -> None:
    failed = only(read_log(name), Failed)

    first = failed[0]
    assert (first.where, first.rank, first.phase, first.first) == (where, rank, phase, True)
    assert first.cause.startswith(cause)
    assert first.summary.startswith(TRACE)
    assert cause in first.summary
    assert not any(later.first for later in failed[1:])


def test_missing_shard_of_0_5_16_is_no_failure_in_the_log() -> None:
    assert only(read_log("h200-0.5.16-fail-missing-shard"), Failed) == []


def test_second_rank_is_not_the_first_cause() -> None:
    failed = only(read_log("cpu-0.5.23-tp2-ranks"), Failed)
    assert [(event.rank, event.first) for event in failed] == [("TP0", True), ("TP1", False)]


def test_interleaved_tracebacks_give_the_cause_to_the_earliest() -> None:
    failed = only(
        feed(
            [
                _stamped("Load weight begin. avail mem=9.00 GB", " TP6"),
                _stamped(f"Scheduler hit an exception: {TRACE}", " TP6"),
                '  File "a.py", line 1, in run',
                _stamped(f"Scheduler hit an exception: {TRACE}", " TP2"),
                '  File "a.py", line 1, in run',
                "torch.OutOfMemoryError: CUDA out of memory.",
                "",
                _stamped("Received sigquit from a child process. It usually means the child failed."),
            ]
        ),
        Failed,
    )
    assert [(event.rank, event.cause, event.phase) for event in failed] == [
        ("TP6", "torch.OutOfMemoryError: CUDA out of memory.", "load_weights")
    ]


def test_summary_is_the_end_of_a_long_traceback() -> None:
    frames = [f'  File "deep.py", line {n}, in recurse' for n in range(1000)]
    failed = only(
        _finished([_stamped(f"Scheduler hit an exception: {TRACE}"), *frames[:300], "RecursionError: too deep"]), Failed
    )
    assert failed[0].cause == "RecursionError: too deep"
    assert len(failed[0].summary.splitlines()) <= 31
    assert failed[0].summary.splitlines()[-1] == "RecursionError: too deep"


def test_traceback_that_ends_too_early_names_no_cause() -> None:
    failed = only(
        _finished([_stamped(f"Scheduler hit an exception: {TRACE}"), '  File "a.py", line 1, in run']), Failed
    )
    assert [event.cause for event in failed] == ["scheduler hit an exception (the log ends before it says which)"]


def test_cause_on_the_next_line_is_joined() -> None:
    failed = only(_finished([_stamped(f"Scheduler hit an exception: {TRACE}"), "RuntimeError:", "No GPU"]), Failed)
    assert failed[0].cause == "RuntimeError: No GPU"


def test_multi_line_message_keeps_its_first_line_as_cause() -> None:
    lines = [
        _stamped(f"Scheduler hit an exception: {TRACE}"),
        '  File "a.py", line 1, in run',
        "Exception: Capture cuda graph failed: CUDA out of memory.",
        "Possible solutions:",
        "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)",
    ]
    failed = only(_finished(lines), Failed)
    assert failed[0].cause == "Exception: Capture cuda graph failed: CUDA out of memory."
    assert "smaller value" in failed[0].summary


def test_traceback_of_a_server_that_goes_on_is_no_failure() -> None:
    harmless = ["Exception in thread Thread-3:", TRACE, '  File "a.py", line 1, in run', "OSError: harmless", ""]
    going_on = [_stamped("Load weight begin. avail mem=9.00 GB"), _stamped("Load weight end. elapsed=1.00 s, type=A")]
    assert only(_finished([_stamped("Init parallel begin."), *harmless, *going_on]), Failed) == []
    ordinary = [_stamped(f"line {n}") for n in range(60)]
    assert only(_finished([_stamped("x"), *harmless, *ordinary]), Failed) == []


def test_traceback_of_the_launcher_counts_when_a_child_has_died() -> None:
    lines = [_stamped("x"), TRACE, '  File "a.py", line 1, in run', "ImportError: undefined symbol: _ZN3c104cuda"]
    sigquit = _stamped("Received sigquit from a child process. It usually means the child failed.")
    assert [event.cause for event in only(feed([*lines, sigquit]), Failed)] == [lines[-1]]


def test_scheduler_killed_while_loading() -> None:
    died = (
        "RuntimeError: Rank 0 scheduler died during initialization (exit code: -9). If exit code is -9 (SIGKILL), a "
        "common cause is the OS OOM killer."
    )
    lines = [_stamped("Load weight begin. avail mem=9.00 GB"), TRACE, '  File "a.py", line 1, in run', died, ""]
    failed = only(_finished([*lines, _stamped("anything")]), Failed)
    assert [event.cause for event in failed] == [died]
    older = only(feed([_stamped("Rank 0 scheduler is dead. Please check if there are relevant logs.")]), Failed)
    assert [event.where for event in older] == ["scheduler"]


@pytest.mark.parametrize(
    ("line", "where"),
    [
        (
            "Subprocess scheduler_0 (pid=2971) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
            "subprocess",
        ),
        ("TP0 scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)", "watchdog"),
        ("Watchdog timeout (self.watchdog_timeout=300)", "watchdog"),
        ("SIGQUIT received. signum=None, frame=None. It usually means one child failed.", "child"),
    ],
)
def test_deaths_while_running(line: str, where: str) -> None:
    failed = only(feed([_stamped("The server is fired up and ready to roll!"), _stamped(line)]), Failed)
    assert [(event.where, event.cause) for event in failed] == [(where, line)]


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("Fatal Python error: Segmentation fault", "crash"),
        ("terminate called after throwing an instance of 'c10::DistBackendError'", "crash"),
        ("/usr/bin/python3: No module named sglang.launch_server", "command"),
        ("bash: line 1: sglang: command not found", "command"),
        ("nohup: failed to run command 'python': No such file or directory", "command"),
    ],
)
def test_deaths_without_python(line: str, where: str) -> None:
    failed = only(feed([line]), Failed)
    assert [(event.where, event.cause) for event in failed] == [(where, line)]


def test_refused_arguments() -> None:
    lines = [
        "usage: launch_server.py [-h] --model-path MODEL_PATH",
        "                        [--cuda-graph-max-bs-decode N]",
        "launch_server.py: error: ambiguous option: --cuda-graph-max-bs could match --cuda-graph-max-bs-decode",
    ]
    failed = only(feed(lines), Failed)
    assert [(event.where, event.cause.split(":")[0]) for event in failed] == [("arguments", "ambiguous option")]
    assert only(feed(["some_tool: error: not ours"]), Failed) == []


def test_warm_up_that_fails() -> None:
    lines = [
        _stamped("INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)"),
        _stamped(f"Initialization failed. warmup error: {TRACE}"),
        '  File "http.py", line 1, in warmup',
        "AssertionError: res=<Response [502]>",
        "",
        _stamped("kill_process_tree called: parent_pid=1, include_parent=True, pid=1"),
    ]
    failed = only(feed(lines), Failed)
    assert [(event.where, event.phase, event.cause) for event in failed] == [
        ("warmup", "warmup", "AssertionError: res=<Response [502]>")
    ]


def test_stop_that_was_asked_for_is_no_failure() -> None:
    lines = [
        _stamped("SIGTERM received. signum=None frame=None. Draining requests and shutting down..."),
        _stamped("SIGTERM received. signum=None frame=None. Draining requests and shutting down..."),
        _stamped("Subprocess scheduler_0 (pid=662) crashed with exit code -15. Triggering SIGQUIT for cleanup..."),
        _stamped(f"Scheduler hit an exception: {TRACE}"),
        "KeyboardInterrupt",
    ]
    events = _finished(lines)
    assert len(only(events, Stopping)) == 1
    assert only(events, Failed) == []


def test_taken_port_inside_a_traceback() -> None:
    lines = [
        _stamped(f"Scheduler hit an exception: {TRACE}"),
        "OSError: [Errno 98] Address already in use: port 29500",
        "",
        _stamped("x"),
    ]
    events = feed(lines)
    assert [event.port for event in only(events, PortTaken)] == [29500]
    assert len(only(events, Failed)) == 1


@pytest.mark.parametrize(
    "why",
    [
        "[Errno 13] error while attempting to bind on address ('127.0.0.1', 81): permission denied",
        "[Errno 99] error while attempting to bind on address ('10.9.9.9', 81): cannot assign requested address",
    ],
)
def test_an_address_that_cannot_be_had_is_as_good_as_taken(why: str) -> None:
    """SGLang lingers after it, and serves nobody."""
    events = feed([_stamped(f"ERROR:    {why}")])
    assert [event.port for event in only(events, PortTaken)] == [81]


def test_ranks_that_cannot_reach_each_other_are_warned_of_once() -> None:
    """PyTorch goes on trying for half an hour, and the log never stands still."""
    refused = "TCP client failed to connect/validate to host 10.255.255.1:27629 - retrying (try={}, timeout=1800000ms"
    lines = [f"[W1201 16:57:17.278905969 TCPStore.cpp:340] [c10d] {refused.format(n)}, delay=9ms)" for n in range(9)]
    [warned] = only(feed([_stamped("Init torch distributed begin."), *lines]), Warned)
    assert warned.what == "rendezvous_unreached"
    assert "10.255.255.1:27629" in warned.text
    assert only(feed(lines[:5]), Warned) == []


def test_secrets_in_failures_do_not_come_through() -> None:
    key = "sk-ant-" + "a1B2c3D4e5" * 5
    lines = [_stamped(f"Scheduler hit an exception: {TRACE}"), f"  run(api_key='{key}')", f"ValueError: api_key={key}"]
    failed = only(_finished(lines), Failed)[0]
    assert key not in failed.cause + failed.summary


def test_soft_watchdog_and_failed_health_check_are_warnings() -> None:
    health = "Health check failed. Server couldn't get a response from detokenizer for last 20 seconds."
    events = feed([_stamped("The server is fired up and ready to roll!"), _stamped(health)])
    assert [event.what for event in only(events, Warned)] == ["health_check_failed"]
    soft = feed([_stamped("scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=True)")])
    assert only(soft, Failed) == []
