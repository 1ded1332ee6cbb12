"""vLLM: its command lines, and its log as events."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.launches.reading import elapsed, feed, only, phases, read_file

from sitrepd.launches.engines import engine_for, engine_named
from sitrepd.launches.engines._lines import GIB
from sitrepd.launches.engines._skim import vllm as skim
from sitrepd.launches.engines.base import (
    Compiled,
    Failed,
    Listening,
    LogEvent,
    LogParser,
    PhaseProgress,
    PortTaken,
    Ready,
    Restarted,
    Settings,
    Sized,
    Throughput,
    Timings,
    Warned,
)
from sitrepd.launches.engines.vllm import VllmEngine

SEEN = datetime(2026, 12, 2, 12, tzinfo=UTC)
CORE, API = "(EngineCore_DP0 pid=212) ", "(APIServer pid=1) "
ONE_GPU = [
    API + "INFO 12-01 01:02:03 [api_server.py:1977] vLLM API server version 0.11.2",
    API + "INFO 12-01 01:02:03 [utils.py:253] non-default args: {'model_tag': '/models/target', 'port': 8011, "
    "'api_key': ['sk-not-a-real-key-123456'], 'gpu_memory_utilization': 0.8}",
    API + "WARNING 12-01 01:02:05 [vllm.py:500] Capping cudagraph capture sizes from max 512 to 352.",
    CORE + "INFO 12-01 01:02:20 [core.py:93] Initializing a V1 LLM engine (v0.11.2) with config: model='/models/target', "
    "speculative_config=SpeculativeConfig(method='eagle3', model='/models/draft', num_spec_tokens=3), "
    "max_seq_len=8192, enforce_eager=False, kv_cache_dtype=auto, "
    'compilation_config={"level":3,"cudagraph_capture_sizes":[512,504,496]}',
    CORE + "INFO 12-01 01:02:21 [parallel_state.py:1208] world_size=1 rank=0 local_rank=0 "
    "distributed_init_method=tcp://127.0.0.1:41000 backend=nccl",
    CORE + "INFO 12-01 01:02:23 [gpu_model_runner.py:3259] Starting to load model /models/target...",
    "",
    "Loading safetensors checkpoint shards:   0% Completed | 0/4 [00:00<?, ?it/s]",
    "\rLoading safetensors checkpoint shards:  50% Completed | 2/4 [00:04<00:04,  2.00s/it]",
    "\rLoading safetensors checkpoint shards: 100% Completed | 4/4 [00:08<00:00,  2.01s/it]",
    CORE,
    CORE + "INFO 12-01 01:02:32 [default_loader.py:314] Loading weights took 8.10 seconds",
    CORE + "INFO 12-01 01:02:32 [gpu_model_runner.py:3300] Loading drafter model...",
    CORE + "INFO 12-01 01:02:34 [gpu_model_runner.py:3338] Model loading took 13.50 GiB memory and 10.250000 seconds",
    CORE + "INFO 12-01 01:02:40 [backends.py:631] Using cache directory: /c/torch_compile_cache/ab/rank_0_0/backbone "
    "for vLLM's torch.compile",
    CORE + "INFO 12-01 01:02:40 [backends.py:647] Dynamo bytecode transform time: 5.61 s",
    CORE + "INFO 12-01 01:03:02 [backends.py:259] Compiling a graph for dynamic shape takes 21.40 s",
    CORE + "INFO 12-01 01:03:05 [monitor.py:34] torch.compile takes 27.01 s in total",
    CORE + "INFO 12-01 01:03:07 [gpu_worker.py:359] Available KV cache memory: 56.00 GiB",
    CORE + "INFO 12-01 01:03:07 [kv_cache_utils.py:1229] GPU KV cache size: 458,752 tokens",
    CORE + "INFO 12-01 01:03:07 [kv_cache_utils.py:1234] Maximum concurrency for 8,192 tokens per request: 56.00x",
    "\rCapturing CUDA graphs (mixed prefill-decode, PIECEWISE):   0%|          | 0/67 [00:00<?, ?it/s]",
    "\rCapturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 67/67 [00:06<00:00, 10.80it/s]",
    "\rCapturing CUDA graphs (decode, FULL): 100%|██████████| 35/35 [00:03<00:00, 11.20it/s]",
    CORE + "INFO 12-01 01:03:17 [gpu_model_runner.py:4244] Graph capturing finished in 10 secs, took 0.83 GiB",
    CORE + "INFO 12-01 01:03:17 [core.py:250] init engine (profile, create kv cache, warmup model) took 43.20 seconds",
    API + "INFO 12-01 01:03:19 [api_server.py:1977] Starting vLLM API server 0 on http://0.0.0.0:8011",
    API + "INFO:     Started server process [1]",
    API + "INFO:     Waiting for application startup.",
    API + "INFO:     Application startup complete.",
    API + 'INFO:     127.0.0.1:44962 - "POST /v1/completions HTTP/1.1" 200 OK',
    API + "INFO 12-01 01:03:40 [loggers.py:236] Engine 000: Avg prompt throughput: 7.5 tokens/s, Avg generation "
    "throughput: 94.0 tokens/s, Running: 4 reqs, Waiting: 1 reqs, GPU KV cache usage: 2.5%, Prefix cache hit rate: 12.5%",
    API + "INFO 12-01 01:03:40 [metrics.py:100] SpecDecoding metrics: Mean acceptance length: 2.37, Accepted throughput: "
    "14.30 tokens/s, Drafted throughput: 31.20 tokens/s, Accepted: 143 tokens, Drafted: 312 tokens, Per-position "
    "acceptance rate: 0.635, 0.442, 0.298, Avg Draft acceptance rate: 45.8%",
]  # fmt: skip


def parser() -> LogParser:
    return VllmEngine().parser(tz=UTC)


def read(lines: list[str]) -> list[LogEvent]:
    return feed(lines, parser())


def test_the_phases_of_a_start() -> None:
    events = read(ONE_GPU)
    assert phases(events) == [
        "+starting", "-starting", "+dist_init", "-dist_init", "+load_weights", "-load_weights", "+load_draft_weights",
        "-load_draft_weights", "+compile_kernels", "-compile_kernels", "+kv_cache", "-kv_cache", "+capture_graphs",
        "-capture_graphs", "+http_start", "-http_start",
    ]  # fmt: skip
    assert elapsed(events)["compile_kernels"] == 27.01
    assert elapsed(events)["capture_graphs"] == 10.0
    assert [event.seconds for event in only(events, Compiled)] == [5.61, 21.40]
    assert [event.seconds for event in only(events, Timings)] == [{"init_engine": 43.2}]
    assert [(event.text, event.suspect) for event in only(events, Ready)] == [("Application startup complete.", False)]
    assert events[0].at == datetime(2026, 12, 1, 1, 2, 3, tzinfo=UTC)
    assert [(e.host, e.port) for e in only(events, Listening) if e.port] == [("0.0.0.0", 8011)]


def test_bars_and_sizes() -> None:
    events = read(ONE_GPU)
    moves = [(event.phase, event.done, event.total, event.unit) for event in only(events, PhaseProgress)]
    assert moves == [
        ("load_weights", 0, 4, "shards"), ("load_weights", 2, 4, "shards"), ("load_weights", 4, 4, "shards"),
        ("capture_graphs", 0, 67, "graphs"), ("capture_graphs", 67, 67, "graphs"), ("capture_graphs", 35, 35, "graphs"),
    ]  # fmt: skip
    sizes = {event.name: event.value for event in only(events, Sized)}
    assert sizes["kv_tokens"] == 458752
    assert sizes["weight_bytes"] == int(13.5 * GIB)
    assert sizes["kv_cache_bytes"] == 56 * GIB
    assert sizes["graph_bytes"] == round(0.83 * GIB)


def test_settings_and_what_was_changed() -> None:
    events = read(ONE_GPU)
    values = only(events, Settings)[0].values
    assert values["max_seq_len"] == 8192
    assert values["gpu_memory_utilization"] == 0.8
    assert values["speculative_config"]["num_spec_tokens"] == 3
    assert "sk-not-a-real" not in json.dumps(values)
    assert [(event.what, event.text[:7]) for event in only(events, Warned)] == [("setting_changed", "Capping")]


def test_figures() -> None:
    batch, spec = only(read(ONE_GPU), Throughput)
    assert (batch.gen_tok_s, batch.input_tok_s, batch.running, batch.queued) == (94.0, 7.5, 4, 1)
    assert (batch.token_usage, batch.other["Prefix cache hit rate"]) == (0.025, 0.125)
    assert (spec.accept_len, spec.accept_rate, spec.gen_tok_s) == (2.37, 0.458, None)
    other = read([API + "INFO 12-01 01:03:40 [loggers.py:236] Engine 001: Avg prompt throughput: 1.0 tokens/s"])
    assert only(other, Throughput)[0].rank == "DP1"


def test_ranks_are_one_launch() -> None:
    worker = [f"(Worker_TP{rank} pid=3{rank}) INFO 12-01 01:02:" for rank in (0, 1)]
    lines = [
        worker[0] + "20 [gpu_model_runner.py:1] Starting to load model /m...",
        worker[1] + "20 [gpu_model_runner.py:1] Starting to load model /m...",
        worker[1] + "30 [gpu_model_runner.py:1] Model loading took 5.00 GiB memory and 9.0 seconds",
        worker[0] + "32 [gpu_model_runner.py:1] Model loading took 5.00 GiB memory and 11.0 seconds",
        worker[0] + "40 [monitor.py:34] torch.compile takes 8.0 s in total",
        worker[1] + "41 [monitor.py:34] torch.compile takes 9.0 s in total",
        "(EngineCore_DP0 pid=2) INFO 12-01 01:02:45 [kv_cache_utils.py:1] GPU KV cache size: 1,024 tokens",
        worker[1] + "50 [gpu_model_runner.py:1] Graph capturing finished in 5 secs, took 0.10 GiB",
        worker[0] + "51 [gpu_model_runner.py:1] Graph capturing finished in 6 secs, took 0.10 GiB",
    ]
    events = read(lines)
    assert phases(events) == [
        "+starting", "-starting", "+load_weights", "+compile_kernels", "-load_weights", "+kv_cache",
        "-compile_kernels", "-kv_cache", "+capture_graphs", "-capture_graphs",
    ]  # fmt: skip
    assert elapsed(events)["load_weights"] == 11.0
    assert [event.rank for event in only(events, Sized) if event.name == "weight_bytes"] == ["TP1", "TP0"]


def test_without_graphs_nothing_is_compiled() -> None:
    eager = [line.replace("enforce_eager=False", "enforce_eager=True") for line in ONE_GPU]
    left_out = ("torch.compile", "Dynamo", "Compiling", "Capturing", "Graph capturing")
    events = read([line for line in eager if not any(word in line for word in left_out)])
    assert "+compile_kernels" not in phases(events)
    assert "+capture_graphs" not in phases(events)
    assert phases(events)[-4:] == ["+kv_cache", "-kv_cache", "+http_start", "-http_start"]


def test_the_first_cause_of_a_failure() -> None:
    error = "(EngineCore_DP0 pid=212) ERROR 12-01 01:02:30 [core.py:708] "
    lines = [
        *ONE_GPU[:6],
        error + "EngineCore failed to start.",
        error + "Traceback (most recent call last):",
        error + '  File "core.py", line 699, in run_engine_core',
        error + "    engine_core = EngineCoreProc(*args, **kwargs)",
        error + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.17 GiB.",
        "(EngineCore_DP0 pid=212) Process EngineCore_DP0:",
        "(EngineCore_DP0 pid=212) Traceback (most recent call last):",
        '(EngineCore_DP0 pid=212)   File "process.py", line 314, in _bootstrap',
        "(EngineCore_DP0 pid=212) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.17 GiB.",
        "(APIServer pid=1) Traceback (most recent call last):",
        '(APIServer pid=1)   File "vllm", line 10, in <module>',
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    reader = parser()
    failed = only([*feed(lines, reader), *reader.finish(SEEN)], Failed)
    assert failed[0].first
    assert failed[0].cause.startswith("torch.OutOfMemoryError: CUDA out of memory")
    assert failed[0].phase == "load_weights"
    assert [event.first for event in failed].count(True) == 1


def test_a_taken_port_and_a_second_start() -> None:
    taken = read([API + "OSError: [Errno 98] Address already in use"])
    assert len(only(taken, PortTaken)) == 1
    again = read([*ONE_GPU, *ONE_GPU])
    assert len(only(again, Restarted)) == 1
    assert len(only(again, Ready)) == 2


def test_a_parser_goes_on_from_its_state_at_every_line() -> None:
    whole = read(ONE_GPU)
    for cut in range(0, len(ONE_GPU), 3):
        first = parser()
        events = feed(ONE_GPU[:cut], first)
        state = json.loads(json.dumps(first.state()))
        assert events + feed(ONE_GPU[cut:], VllmEngine().parser(state, tz=UTC)) == whole


def test_lines_that_are_none_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(
        b"\x00\xff\xfe junk\n" + b"(EngineCore pid=x) INFO 99-99 99:99:99 [a.py:1] Starting to load model\n" * 3
    )
    assert phases(read_file(log, parser()))[0] == "+starting"


@pytest.mark.parametrize(
    ("argv", "wanted"),
    [
        (["vllm", "serve", "/m", "--port", "8011", "-tp", "8"], ("/m", 8011, 8)),
        (["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "/m"], ("/m", 8000, 1)),
        (["bash", "-c", "nohup /v/bin/vllm serve /m --tensor-parallel-size=2 > log 2>&1"], ("/m", 8000, 2)),
    ],
)
def test_commands(argv: list[str], wanted: tuple[str, int, int]) -> None:
    engine = engine_for(argv)
    facts = engine.describe(argv, {})
    assert engine.name == "vllm"
    assert (facts.model_path, facts.port, facts.tp_size) == wanted


def test_speculation_is_read_from_its_configuration() -> None:
    told = '{"method": "eagle3", "model": "/draft", "num_speculative_tokens": 3}'
    facts = VllmEngine().describe(["vllm", "serve", "/m", "--speculative-config", told], {"VLLM_API_KEY": "x"})
    assert facts.draft_model_path == "/draft"
    assert facts.speculative == {"method": "eagle3", "model": "/draft", "num_speculative_tokens": 3}
    assert facts.has_api_key


def test_others_are_not_vllm() -> None:
    for argv in (
        ["vllm", "bench", "serve"],
        ["python", "serve.py"],
        ["sglang", "serve", "/m"],
        ["tensorboard", "serve"],
    ):
        assert engine_for(argv).name != "vllm"
    assert engine_named("vllm").probes[0].disturbs is False


def test_catching_up_leaves_the_milestones() -> None:
    busy = [line for line in ONE_GPU if "HTTP/1.1" in line or "Engine 000" in line]
    text = "\n".join([*ONE_GPU, *(busy * 3000)]) + "\n"
    left = skim(text.encode()).decode().splitlines()
    assert phases(feed(left, parser())) == phases(read(ONE_GPU))
    assert len(left) < len(ONE_GPU) + 60
    assert only(feed(left, parser()), Throughput)[-1].gen_tok_s == 94.0
