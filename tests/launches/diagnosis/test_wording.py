"""What a fix says fits the engine, and names nothing that the reader would have to fill in."""

from __future__ import annotations

import re

import pytest
from tests.launches.diagnosis.corpus import Entry, entries

from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.diagnosis.known import Known
from sitrepd.launches.diagnosis.wording import in_words_of

FAILED = [one for one in entries() if one.category]
OF_VLLM = [one for one in FAILED if any("vLLM API server" in line for line in one.lines)]
_STANDS_FOR = re.compile(r"\b(?:QUANTIZATION|DRAFT|MODEL|HOST:PORT|VERSION|LENGTH|PID|IFACE|LIMIT)\b(?!=)")
_SGLANGS = re.compile(r"SGLANG_|sglang|--(?:mem-fraction-static|tp-size|context-length|disable-cuda-graph|nccl-port)\b")


def test_texts_have_no_gaps() -> None:
    def text(entry: Entry) -> str:
        told = diagnose(entry.lines)
        return " ".join(filter(None, (told.summary, told.fix)))

    texts = {entry.name: text(entry) for entry in FAILED}
    assert {name: told for name, told in texts.items() if "\0" in told or _STANDS_FOR.search(told)} == {}


@pytest.mark.parametrize("entry", OF_VLLM, ids=lambda entry: entry.name)
def test_no_flag_of_sglang_for_vllm(entry: Entry) -> None:
    assert not _SGLANGS.search(diagnose(entry.lines).fix or "")


def test_address_of_the_launch_stands_in_the_fix() -> None:
    known = Known(settings={"dist_init_addr": "10.1.0.4:5000"})
    assert in_words_of(known, "start with --dist-init-addr HOST:PORT; nc -vz HOST PORT") == (
        "start with --dist-init-addr 10.1.0.4:5000; nc -vz 10.1.0.4 5000"
    )


def test_where_only_advice_for_sglang_is_left_it_is_general() -> None:
    assert "issues of the engine" in in_words_of(Known(engine="vllm"), "--skip-server-warmup starts without it.")


def test_sizes_are_those_of_the_run_that_failed_or_are_left_out() -> None:
    oom = [
        "Traceback (most recent call last):",
        '  File "/x/sglang/srt/model_loader/loader.py", line 9, in load_model',
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
    ]
    assert "now" not in (diagnose(oom).fix or "now")
    runs = [f"+ python -m sglang.launch_server --model-path /m --tp-size {size}" for size in (1, 4, 2)]
    assert "--tp-size 8 (now 4)" in (diagnose([*runs[:2], *oom, runs[2]]).fix or "")


def test_diffusion_has_no_kv_cache() -> None:
    told = diagnose(
        [
            "Traceback (most recent call last):",
            '  File "/x/sglang/multimodal_gen/runtime/loader/fsdp_load.py", line 9, in load_model_from_full',
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 34.00 MiB.",
        ]
    )
    assert "KV" not in f"{told.summary} {told.cause}"
    assert "--dit-cpu-offload" in (told.fix or "")


OPEN = "cannot open shared object file: No such file or directory"
FAULT = "Memory access fault by GPU node-2 (Agent handle: 0x1) on address 0x2. Reason: Unknown."


@pytest.mark.parametrize(
    ("line", "said", "unsaid"),
    [
        ("/x/nvshmem/transport/ibrc/ibrc.cpp:40: non-zero status: 22 ibv_modify_qp failed", "NVSHMEM_HCA", "MC_FORCE"),
        ("E1102 rdma.cpp:40] Failed to modify: ibv_modify_qp failed", "MC_FORCE_TCP", "NVSHMEM"),
        (f"ImportError: libnuma.so.1: {OPEN}", "apt-get install libnuma1", "pip check"),
        (f"OSError: /x/torch_extensions/py312/a/a.so: {OPEN}", "rm -rf /x/torch_extensions/py312/a,", "LD_LIBRARY"),
        (FAULT, "AMD_SERIALIZE_KERNEL=3", "CUDA_LAUNCH_BLOCKING"),
        ("CUDA error: an illegal memory access was encountered", "CUDA_LAUNCH_BLOCKING=1", "AMD_SERIALIZE"),
        ("CUDA error: unspecified launch failure", "xid", "tokenizer"),
        ("CUDA error: device-side assert triggered", "tokenizer", "xid"),
        ("The bin of socVersion [ascend310p] does not support opType [Mix]", "for ascend310p", "--attention"),
    ],
)
def test_advice_is_of_what_failed(line: str, said: str, unsaid: str) -> None:
    fix = diagnose([line if "Error" in line[:14] else f"RuntimeError: {line}"]).fix or ""
    assert said in fix
    assert unsaid not in fix


ELASTIC = '  File "/x/torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py", line 67, in next_rendezvous'
LISTEN = "torch.distributed.DistNetworkError: The server socket has failed to listen on any address. port: 29500"


@pytest.mark.parametrize(
    ("lines", "said", "unsaid"),
    [
        (["zmq.error.ZMQError: Address already in use (addr='tcp://10.1.0.4:20012')"], "sport = :20012", "--port"),
        (["OSError: [Errno 98] error while attempting to bind on address ('0.0.0.0', 8123)"], "--port 8124", "ZMQ"),
        (["Traceback (most recent call last):", ELASTIC, LISTEN], "torchrun --master-port 29501", "--nccl-port"),
        (
            ["ValueError: User-specified max_model_len (9000) is greater than the derived max_model_len (a=4096.0)"],
            "--max-model-len 4096 or less",
            "SGLANG_",
        ),
        (
            ["ValueError: User-specified context_length (9000) is greater than the", "derived context_length (4096)."],
            "--context-length 4096 or less",
            "VLLM_",
        ),
        (
            [
                "ValueError: Free memory on device cuda:0 (40.0/80.0 GiB) on startup",
                "is less than desired GPU memory utilization (0.9, 72.0 GiB).",
            ],
            "--gpu-memory-utilization 0.49",
            "SGLANG_",
        ),
    ],
)
def test_advice_has_the_numbers_and_the_flags_of_the_message(lines: list[str], said: str, unsaid: str) -> None:
    fix = diagnose(["Traceback (most recent call last):", *lines]).fix or ""
    assert said in fix
    assert unsaid not in fix


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (9.21 GiB). Based on the available memory, the "
            "estimated maximum model length is 75440.",
            "75440 or less",
        ),
        ("RuntimeError: ptxas: Value 'sm_121a' is not defined for option 'gpu-name'", "architecture sm_121a"),
        ("ValueError: World size (8) is larger than the number of available GPUs (2)", "8 ranks are to run"),
    ],
)
def test_what_any_alternative_of_a_message_names_is_said(line: str, said: str) -> None:
    start = "[2026-11-02 10:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):"
    told = diagnose([start, '  File "/x/sglang/srt/y.py", line 9, in f', line])
    assert said in f"{told.summary} {told.cause} {told.fix}"
