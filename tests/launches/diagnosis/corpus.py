"""Failing logs as text: `=== category name`, then lines, some of which are macros (`@ready`) for what is common."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "corpus"
_SITE = "/opt/venv/lib/python3.12/site-packages/sglang/srt"
_ARGS = (
    "[2026-11-02 10:00:01] server_args=ServerArgs(model_path='/models/kimi', port=30000, tp_size=8, "
    "mem_fraction_static=0.85, "
    "context_length=None, watchdog_timeout=300, speculative_algorithm=None, trust_remote_code=False)"
)
_START = [
    _ARGS,
    "[2026-11-02 10:00:05 TP0] Init torch distributed begin.",
    "[2026-11-02 10:00:05 TP1] Init torch distributed begin.",
]
_BEGIN = [
    *_START,
    "[2026-11-02 10:00:06 TP0] Init torch distributed ends. elapsed=1.20 s, mem usage=0.61 GB",
    "[2026-11-02 10:00:06 TP1] Init torch distributed ends. elapsed=1.20 s, mem usage=0.61 GB",
    "[2026-11-02 10:00:06 TP0] Load weight begin. avail mem=93.10 GB",
    "[2026-11-02 10:00:06 TP1] Load weight begin. avail mem=93.10 GB",
]
_LOADED = [
    *_BEGIN,
    "Multi-thread loading shards:   0% Completed | 0/8 [00:00<?, ?it/s]\rMulti-thread loading shards: 100% Completed "
    "| 8/8 [00:02<00:00,  3.9it/s]",
    "[2026-11-02 10:00:08 TP0] Load weight end. elapsed=2.05 s, type=KimiK25ForCausalLM, avail mem=24.10 GB, mem "
    "usage=69.00 GB.",
    "[2026-11-02 10:00:08 TP1] Load weight end. elapsed=2.05 s, type=KimiK25ForCausalLM, avail mem=24.10 GB, mem "
    "usage=69.00 GB.",
]
_POOLED = [
    *_LOADED,
    "[2026-11-02 10:00:09 TP0] KV Cache is allocated. #tokens: 170000, KV size: 14.00 GB",
    "[2026-11-02 10:00:09 TP0] Memory pool end. avail mem=9.80 GB",
    "[2026-11-02 10:00:09 TP1] Memory pool end. avail mem=9.80 GB",
    "[2026-11-02 10:00:10 TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=9.60 GB",
    "[2026-11-02 10:00:10 TP1] Capture cuda graph begin. This can take up to several minutes. avail mem=9.60 GB",
]
_HTTP = [
    *_POOLED,
    "[2026-11-02 10:00:28 TP0] Capture cuda graph end. Time elapsed: 18.00 s. mem usage=1.10 GB. avail mem=8.50 GB.",
    "[2026-11-02 10:00:28 TP1] Capture cuda graph end. Time elapsed: 18.00 s. mem usage=1.10 GB. avail mem=8.50 GB.",
    "[2026-11-02 10:00:29 TP0] max_total_num_tokens=170000, chunked_prefill_size=8192, max_running_requests=2048, "
    "context_len=262144",
    "[2026-11-02 10:00:30] INFO:     Started server process [4100]",
    "[2026-11-02 10:00:30] INFO:     Application startup complete.",
    "[2026-11-02 10:00:30] INFO:     Uvicorn running on http://127.0.0.1:30000 (Press CTRL+C to quit)",
]
_READY = [*_HTTP, "[2026-11-02 10:00:33] The server is fired up and ready to roll!"]
_DECODE = [
    "[2026-11-02 10:00:50 TP0] Prefill batch, #new-seq: 1, #new-token: 512, #cached-token: 0, token usage: 0.01, "
    "#running-req: 0, #queue-req: 0",
    "[2026-11-02 10:00:52 TP0] Decode batch, #running-req: 1, #token: 600, token usage: 0.01, cuda graph: True, gen "
    "throughput (token/s): 88.80, #queue-req: 0",
    '[2026-11-02 10:00:54] INFO:     127.0.0.1:44962 - "POST /generate HTTP/1.1" 200 OK',
]
_VLLM = [
    "(APIServer pid=1) INFO 10-25 13:01:00 [api_server.py:1839] vLLM API server version 0.11.0",
    "(APIServer pid=1) INFO 10-25 13:01:00 [utils.py:233] non-default args: {'model_tag': '/models/qwen', 'model': "
    "'/models/qwen', 'tensor_parallel_size': 4, 'gpu_memory_utilization': 0.9}",
    "(EngineCore_DP0 pid=271) INFO 10-25 13:01:20 [core.py:77] Initializing a V1 LLM engine (v0.11.0) with config: "
    "model='/models/qwen', tensor_parallel_size=4",
    "(EngineCore_DP0 pid=271) INFO 10-25 13:01:31 [gpu_model_runner.py:2602] Starting to load model /models/qwen...",
]
_VLLM_READY = [
    *_VLLM,
    "(EngineCore_DP0 pid=271) INFO 10-25 13:02:31 [default_loader.py:267] Loading weights took 41.20 seconds",
    "(EngineCore_DP0 pid=271) INFO 10-25 13:03:01 [core.py:210] init engine (profile, create kv cache, warmup model) "
    "took 41.21 seconds",
    "(APIServer pid=1) INFO:     Application startup complete.",
    "(APIServer pid=1) INFO 10-25 13:18:02 [loggers.py:127] Engine 000: Avg prompt throughput: 5.1 tokens/s, Avg "
    "generation throughput: 44.0 tokens/s, Running: 1 reqs",
]
_VLLM_END = [
    "(APIServer pid=1) Traceback (most recent call last):",
    '(APIServer pid=1)   File "/opt/venv/bin/vllm", line 8, in <module>',
    "(APIServer pid=1)     sys.exit(main())",
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}",
]
_LLAMA = [
    "main: HTTP server is listening, hostname: 127.0.0.1, port: 8080, http threads: 11",
    "main: loading model",
    "srv    load_model: loading model '/models/q.gguf'",
    "llm_load_vocab: missing or unrecognized pre-tokenizer type, using: 'default'",
]
_LLAMA_END = [
    "llama_model_load_from_file_impl: failed to load model",
    "srv    load_model: failed to load model, '/models/q.gguf'",
    "main: exiting due to model loading error",
]
_END = [
    "",
    "[2026-11-02 10:01:12] Received sigquit from a child process. It usually means the child failed.",
    "[2026-11-02 10:01:12] kill_process_tree called: parent_pid=4100, include_parent=True, pid=4100",
]
_FRAMES = {
    "init": ("model_executor/model_runner.py", "init_torch_distributed"),
    "load": ("model_loader/loader.py", "load_model"),
    "kv": ("model_executor/model_runner.py", "init_memory_pool"),
    "capture": ("model_executor/cuda_graph_runner.py", "capture_one_batch_size"),
    "serve": ("managers/scheduler.py", "run_batch"),
}
_MACROS = {
    "start": _START, "begin": _BEGIN, "loaded": _LOADED, "pooled": _POOLED, "http": _HTTP, "ready": _READY, "decode": _DECODE,
    "vllm": _VLLM, "vllm_ready": _VLLM_READY, "vllm_end": _VLLM_END, "end": _END,
    "llama": _LLAMA, "llama_end": _LLAMA_END,
}  # fmt: skip


class Entry(NamedTuple):
    """`category` is None where nothing failed."""

    name: str
    category: str | None
    lines: list[str]


def entries() -> Iterator[Entry]:
    for path in sorted(FOLDER.glob("*.txt")):
        for part in path.read_text().split("=== ")[1:]:
            head, *lines = part.rstrip("\n").split("\n")
            category, name = head.split()
            yield Entry(f"{path.stem}/{category}/{name}", None if category == "none" else category, _expand(lines))


def _expand(lines: list[str]) -> list[str]:
    expanded: list[str] = []
    for line in lines:
        name, _, rest = line.removeprefix("@").partition(" ")
        if line.startswith("@hit"):
            expanded += _hit(*rest.split())
        elif line.startswith("@"):
            expanded += _MACROS[name]
        elif line.startswith("V|"):
            expanded.append(f"(EngineCore_DP0 pid=271) ERROR 10-25 13:08:43 [core.py:708] {line[2:]}")
        else:
            expanded.append(line.replace("\\r", "\r"))
    return expanded


def _hit(rank: str, stage: str) -> list[str]:
    """A scheduler's traceback up to its exception, which follows in the corpus."""
    file, function = _FRAMES[stage]
    serving = stage == "serve"
    return [
        f"[2026-11-02 10:01:11 {rank.replace('_', ' ')}] Scheduler hit an exception: Traceback (most recent call "
        f"last):",
        f'  File "{_SITE}/managers/scheduler.py", line 3410, in run_scheduler_process',
        "    scheduler.run_event_loop()" if serving else "    scheduler = Scheduler(",
        f'  File "{_SITE}/managers/scheduler.py", line 1653, in {"event_loop_overlap" if serving else "__init__"}',
        "    result = self.run_batch(batch)" if serving else "    self.init_model_worker()",
        f'  File "{_SITE}/{file}", line 412, in {function}',
        "    return func(*args, **kwargs)",
        "           ^^^^^^^^^^^^^^^^^^^^^",
    ]
