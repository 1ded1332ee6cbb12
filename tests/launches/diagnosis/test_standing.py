"""What is told early and gone on after does not hide what ended the server; alone it may still be the cause."""

from __future__ import annotations

import pytest
from tests.launches.diagnosis.corpus import Entry, entries

from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.launchers.base import Exit

SGLANG = [
    "[2026-11-02 10:00:01] server_args=ServerArgs(model_path='/models/kimi', port=30000, tp_size=8)",
    "[2026-11-02 10:00:05 TP0] Init torch distributed begin.",
]
ASIDES = [
    "[2026-11-02 10:00:03] Skipping import of cpp extensions: /x/_C.abi3.so: undefined symbol: _ZN3c105ErrorC2E",
    "[2026-11-02 10:00:03] deep_gemm is left out: No module named 'deep_gemm'",
    "[2026-11-02 10:00:03 TP0] FlashAttention 3 is left out, it is only supported on SM90",
    "sh: 1: nvcc: not found",
    "Warning: could not use the fast path: No module named 'flash_attn_interface'",
    "/bin/sh: 1: lspci: not found",
    "box:1:1 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file",
]
ENDS = {
    "gpu_count": "torch.AcceleratorError: CUDA error: invalid device ordinal",
    "memory_kv_pool": "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
    "weights_corrupt": "safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge",
    "cuda_illegal_memory": "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
}
FALL = "[2026-11-02 10:00:12] Received sigquit from a child process. It usually means the child failed."
UVICORN = [
    "INFO:     Started server process [1]",
    "INFO:     Waiting for application startup.",
    "INFO:     Application startup complete.",
]
VLLM = "(APIServer pid=155) INFO 11-28 15:28:00 [api_server.py:2052] vLLM API server version 0.11.2"
POST = 'INFO:     127.0.0.1:43490 - "POST /generate HTTP/1.1" 200 OK'


@pytest.mark.parametrize("aside", ASIDES)
@pytest.mark.parametrize("category", ENDS)
def test_asides_do_not_hide_the_end(aside: str, category: str) -> None:
    hit = [
        "[2026-11-02 10:00:11 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/x/sglang/srt/managers/scheduler.py", line 3410, in run_scheduler_process',
        ENDS[category],
        "",
    ]
    assert diagnose([*SGLANG, aside, *hit, FALL]).category == category


@pytest.mark.parametrize(("place", "category"), [(0, "abi_mismatch"), (1, "missing_dependency")])
def test_alone_an_aside_is_the_cause(place: int, category: str) -> None:
    assert diagnose([*SGLANG, ASIDES[place], FALL]).category == category


def test_asides_before_any_failure_change_nothing() -> None:
    def changed(entry: Entry) -> bool:
        return diagnose([*ASIDES[-1:], *entry.lines]).category != entry.category

    assert [entry.name for entry in entries() if entry.category and changed(entry)] == []


@pytest.mark.parametrize("aside", ASIDES)
@pytest.mark.parametrize(
    ("end", "category"),
    [
        ("Killed", "host_oom_killed"),
        ("[2026-11-02 10:00:12] Subprocess scheduler_0 (pid=81) crashed with exit code -9.", "host_oom_killed"),
        ("[2026-11-02 10:00:12 TP0] Watchdog timeout (self.watchdog_timeout=300)", "watchdog_timeout"),
        ("box:1:9 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-v2", "shm_exhausted"),
    ],
)
def test_asides_do_not_hide_how_a_process_ended(aside: str, end: str, category: str) -> None:
    assert diagnose([*SGLANG, aside, end]).category == category


@pytest.mark.parametrize("aside", ASIDES)
def test_asides_of_a_start_that_goes_on_are_no_failure(aside: str) -> None:
    assert diagnose([aside, *SGLANG]).category is None


def test_traceback_of_a_warning_does_not_hide_the_end() -> None:
    warned = [
        f"(EngineCore_DP0 pid=271) WARNING 10-25 13:01:01 [importing.py:31] {line}"
        for line in (
            "Traceback (most recent call last):",
            '  File "/x/vllm/utils/importing.py", line 29, in probe',
            "    import deep_ep",
            "ModuleNotFoundError: No module named 'deep_ep'",
        )
    ]
    failed = [
        f"(EngineCore_DP0 pid=271) ERROR 10-25 13:01:08 [core.py:708] {line}"
        for line in (
            "EngineCore failed to start.",
            "Traceback (most recent call last):",
            '  File "/x/vllm/v1/worker/gpu_worker.py", line 183, in init_device',
            ENDS["gpu_count"],
        )
    ]
    assert diagnose([VLLM, *warned, *failed]).category == "gpu_count"


def test_compiler_that_says_fatal_goes_before_an_exception_that_no_rule_knows() -> None:
    hit = [
        "[2026-11-02 10:00:11 TP0] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/x/sglang/srt/managers/scheduler.py", line 3410, in run_scheduler_process',
        "AttributeError: 'NoneType' object has no attribute 'run'",
        "",
    ]
    fatal = "nvcc fatal   : Unsupported gpu architecture 'compute_120a'"
    assert diagnose([*SGLANG, fatal, *hit, FALL]).category == "jit_compile"
    assert diagnose([*SGLANG, ASIDES[1], *hit, FALL]).category == "scheduler_exception"


def test_nccl_warning_before_a_hang_stays_the_cause() -> None:
    told = diagnose(
        [
            *SGLANG,
            "box:1:9 [0] misc/shmutils.cc:72 NCCL WARN Error: failed to extend /dev/shm/nccl-v2 to 9637892 bytes",
            "[2026-11-02 10:10:11 TP0] Scheduler hit an exception: Traceback (most recent call last):",
            '  File "/x/torch/distributed/distributed_c10d.py", line 2726, in broadcast',
            "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94, unhandled system error",
            FALL,
        ]
    )
    assert told.category == "shm_exhausted"


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ([VLLM, *UVICORN], "ready"),
        ([VLLM, *UVICORN, "slurmstepd: error: *** JOB 6753 ON gpu04 CANCELLED AT 2026-01-07 DUE TO TIME LIMIT ***"], "exited"),
        ([VLLM, "(APIServer pid=155) INFO:     Started server process [155]"], "warming"),
        ([*UVICORN, 'INFO:     10.64.10.54:47584 - "GET /v1/models HTTP/1.1" 200 OK'], "ready"),
        (["(APIServer pid=1) INFO 10-25 13:18:02 [loggers.py:127] Engine 000: Avg prompt throughput: 5.1 tokens/s"], "ready"),
        (UVICORN, "warming"),
        ([f"[2026-11-02 10:00:30] {line}" for line in UVICORN], "warming"),
        ([*SGLANG, *UVICORN], "warming"),
        ([*SGLANG, *UVICORN, POST], "warming"),
        ([*SGLANG, *UVICORN, POST, POST], "ready"),
    ],
)  # fmt: skip
def test_whoever_answers_is_ready(lines: list[str], state: str) -> None:
    told = diagnose(lines)
    assert (told.state, told.category) == (state, None)


def test_warning_of_the_driver_is_no_failure_yet() -> None:
    warning = (
        "/x/torch/cuda/__init__.py:182: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old "
        "(found version 12040)."
    )
    told = diagnose([warning])
    assert (told.state, told.category, told.evidence[0].line) == ("starting", "driver", 1)
    assert diagnose([*SGLANG, warning, *SGLANG[1:], "[2026-11-02 10:01:00 TP0] Load weight begin."]).category is None
    assert diagnose([warning], exit=Exit(known=True, exit_code=1)).state == "failed"


def test_words_about_nccl_are_not_nccls() -> None:
    assert diagnose(["RuntimeError: address already in use after NCCL INFO channel setup"]).category == "port_in_use"
    assert diagnose(["address already in use after NCCL INFO channel setup over NET/Socket"]).category == "port_in_use"


def test_asides_before_a_stop_are_no_failure() -> None:
    """SIGTERM to the whole group is logged as a crash of a rank; here it came before the server was ready."""
    stopped = [
        "[2026-11-02 10:00:10] OpenAI Responses API (/v1/responses) disabled: OpenAIServingResponses init failed "
        "(ModuleNotFoundError: No module named 'openai_harmony')",
        "[2026-11-02 10:00:10] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
        "[2026-11-02 10:00:38] SIGTERM received. signum=None frame=None. Draining requests and shutting down...",
        "[2026-11-02 10:00:39] Subprocess scheduler_0 (pid=11133) crashed with exit code -15. Triggering SIGQUIT for "
        "cleanup...",
        "[2026-11-02 10:00:39] SIGQUIT received. signum=None, frame=None. It usually means one child failed.",
    ]
    told = diagnose([*SGLANG, *stopped])
    assert (told.state, told.category) == ("exited", None)


def test_model_that_does_not_divide_names_the_flag_and_the_size() -> None:
    hit = [
        "[2026-11-02 10:00:11 TP5] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/x/sglang/srt/managers/scheduler.py", line 3410, in run_scheduler_process',
        '  File "/x/sglang/srt/models/llama.py", line 151, in __init__',
        "    assert self.total_num_heads % tp_size == 0",
        "AssertionError",
        "",
    ]
    told = diagnose([*SGLANG, *hit, FALL])
    assert told.category == "scheduler_exception"
    assert told.summary == "The model does not divide between so many ranks (tensor-parallel size 8) [TP5]"
    assert "self.total_num_heads % tp_size == 0" in str(told.cause)
    assert str(told.fix).startswith("--tp-size with a size that divides num_attention_heads")


@pytest.mark.parametrize(
    ("error", "summary", "fix"),
    [
        (
            "DistNetworkError: The client socket has timed out after 600000ms while trying to connect to (node0, 29500).",
            "A rank did not reach node0:29500, where the ranks meet, within 600 s [TP1]",
            "nc -vz node0 29500",
        ),
        (
            "DistStoreError: Timed out after 601 seconds waiting for clients. 7/16 clients joined.",
            "Only 7 of 16 ranks came to where they meet within 601 s [TP1]",
            "--node-rank",
        ),
        (
            "DistNetworkError: Ping failed, invalid value returned from server. Expected: 16872, Got: 1347703880",
            "What answers where the ranks are to meet is no rendezvous of theirs [TP1]",
            "--nccl-port PORT",
        ),
    ],
)
def test_ranks_that_do_not_meet_are_told_with_where(error: str, summary: str, fix: str) -> None:
    hit = [
        "[2026-11-02 10:00:11 TP1] Scheduler hit an exception: Traceback (most recent call last):",
        '  File "/x/sglang/srt/managers/scheduler.py", line 3410, in run_scheduler_process',
        f"torch.distributed.{error}",
        "",
    ]
    told = diagnose([*SGLANG, *hit, FALL])
    assert (told.category, told.summary) == ("nccl_error", summary)
    assert fix in str(told.fix)
