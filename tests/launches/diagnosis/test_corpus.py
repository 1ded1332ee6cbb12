"""How often the diagnosis is right, over logs of every category in the forms that they come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from tests.launches.diagnosis.corpus import Entry, entries

from sitrepd.launches.diagnosis import diagnose

ENTRIES = list(entries())
CATEGORIES = {
    "memory_kv_pool", "memory_cuda_graph", "memory_runtime", "gpu_occupied", "host_oom_killed", "cuda_graph_capture",
    "cuda_illegal_memory", "segfault", "nccl_hang", "nccl_error", "shm_exhausted", "watchdog_timeout", "health_check_failed",
    "warmup_failed", "port_in_use", "bad_flag", "context_length", "model_not_found", "weights_missing", "weights_corrupt",
    "remote_code", "quantization", "draft_model", "gpu_count", "kernel_unsupported", "triton_resources", "jit_compile",
    "abi_mismatch", "driver", "hardware_fault", "orphan_processes", "request_rejected", "missing_dependency",
    "scheduler_exception", "unknown",
}  # fmt: skip
FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda line: line,
    "compose": lambda line: f"sglang-1  | {line}",
    "kubernetes": lambda line: f"2026-11-02T10:00:01.123456789Z stderr F {line}",
    "collector": lambda line: f"[2026-11-02T10:00:01.123Z] {line}",
    "unknown program": lambda line: f"2026-11-02 10:00:01,531 - runner.serve - INFO - {line}",
    "ray": lambda line: f"(WorkerDict pid=616, ip=10.1.2.3) {line}",
    "slurm": lambda line: f"3: {line}",
    "journal": lambda line: f"Nov 02 10:00:01 gpu-box python3[4711]: {line}",
}


@pytest.mark.parametrize("form", FORMS)
def test_corpus_is_diagnosed(form: str) -> None:
    """At least 95 in 100 right, and what is not right is not known; a cut bar may look different behind a prefix."""
    score: Counter[str] = Counter()
    told = []
    for entry in ENTRIES:
        category = diagnose([FORMS[form](line) for line in entry.lines]).category
        verdict = "right" if category == entry.category else "unknown" if category in (None, "unknown") else "wrong"
        score[verdict] += 1
        if verdict != "right":
            told.append(f"{entry.name}: {category}")
    assert score["wrong"] == 0, told
    assert score["right"] >= 0.95 * len(ENTRIES), told


def test_corpus_has_every_category_that_a_log_can_show() -> None:
    assert {entry.category for entry in ENTRIES} == CATEGORIES | {None}


@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.category], ids=lambda entry: entry.name)
def test_every_failure_says_why_and_what_to_do(entry: Entry) -> None:
    told = diagnose(entry.lines)
    assert told.summary
    assert "\n" not in told.summary
    assert told.cause
    assert told.fix
    assert "{" not in told.summary + told.cause
    assert told.evidence
    for one in told.evidence:
        assert one.line == 0 or one.text.rstrip("…")[:80].strip() in entry.lines[one.line - 1].replace("\r", " ")


@pytest.mark.parametrize("entry", [one for one in ENTRIES if not one.category], ids=lambda entry: entry.name)
def test_where_nothing_failed_it_says_so(entry: Entry) -> None:
    told = diagnose(entry.lines)
    assert told.category is None
    assert told.summary.startswith("Nothing failed")
    assert told.cause is told.fix is None


NOISE = [
    "[2026-11-02 10:01:13 TP5] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", line 2726, in broadcast',
    "    work.wait()",
    "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, remote "
    "process "
    "exited or there was a network error, NCCL version 2.27.5",
    "",
    "[rank6]:[W1102 10:01:13.465150152 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=91): Connection "
    "reset by peer",
    "[2026-11-02 10:01:14] Received sigquit from a child process. It usually means the child failed.",
    "[2026-11-02 10:01:14 TP7] Scheduler hit an exception: Traceback (most recent call last):",
    '  File "/opt/venv/lib/python3.12/multiprocessing/connection.py", line 395, in _recv',
    "BrokenPipeError: [Errno 32] Broken pipe",
    "",
    "[2026-11-02 10:01:15] Subprocess scheduler_7 (pid=81) crashed with exit code -9. Triggering SIGQUIT for "
    "cleanup...",
    "Fatal Python error: Aborted",
]  # fmt: skip
ALIVE = {"request_rejected", "unknown", None}
"""What falls over changes these: a server that lived is dead now."""


@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.category not in ALIVE], ids=lambda entry: entry.name)
def test_what_fell_over_later_is_not_the_cause(entry: Entry) -> None:
    assert diagnose([*entry.lines, *NOISE]).category == entry.category


def test_first_of_eight_ranks_is_the_cause() -> None:
    def rank(number: int, error: str) -> list[str]:
        return [
            f"[2026-11-02 10:00:00 TP{number}] Scheduler hit an exception: Traceback (most recent call last):",
            '  File "/x/sglang/srt/model_loader/loader.py", line 3, in load_model',
            error,
            "",
        ]

    first = rank(3, "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge")
    others = [
        line
        for number in (0, 1, 2, 4, 5, 6, 7)
        for line in rank(number, "RuntimeError: NCCL error: unhandled cuda error")
    ]
    told = diagnose([*first, *others])
    assert (told.category, told.evidence[0].line) == ("weights_corrupt", 3)
    assert "[TP3]" in told.summary
