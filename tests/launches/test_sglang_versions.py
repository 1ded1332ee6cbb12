"""Formats of other versions, eight ranks at once, and bars glued to whatever stands beside them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.launches.reading import SEEN, elapsed, feed, only, phases

from sitrepd.launches.engines.base import (
    Compiled,
    Described,
    Failed,
    Listening,
    LogEvent,
    PhaseBegan,
    PhaseEnded,
    PhaseProgress,
    Ready,
    Restarted,
    Sized,
    Warned,
)
from sitrepd.launches.engines.sglang import SglangEngine

GIB = 1024**3
SPECULATIVE = "server_args=ServerArgs(model_path='/models/m', tp_size=8, speculative_algorithm='EAGLE3')"


def _at(second: int, message: str, rank: str = "TP0") -> str:
    return f"[2026-12-01 01:{second // 60:02}:{second % 60:02}{' ' + rank if rank else ''}] {message}"


def _eight(second: int, message: str, spread: int = 0) -> list[str]:
    """The line of all eight ranks, rank 0 last and `spread` seconds later than the others."""
    return [_at(second + spread * (rank == 0), message, f"TP{rank}") for rank in (3, 7, 1, 6, 2, 5, 4, 0)]


def _shards(done: int, elapsed_text: str, total: int = 64) -> str:
    percent = round(100 * done / total)
    return f"Multi-thread loading shards: {percent:3}% Completed | {done}/{total} [{elapsed_text}<00:01,  1.28it/s]"


def test_eight_ranks_are_one_launch() -> None:
    lines = [
        _at(0, "server_args={'model_path': '/models/m', 'tp_size': 8, 'speculative_algorithm': None}", ""),
        *_eight(10, "Init parallel begin."),
        *_eight(20, "Init parallel ends. elapsed=9.50 s", 1),
        *_eight(22, "Load weight begin. avail mem=94.00 GB"),
        _shards(0, "00:00"),
        _shards(32, "05:00"),
        *[line for rank in range(1, 8) for line in [_at(330 + rank, _loaded(300 + rank), f"TP{rank}")]],
        _shards(64, "09:14"),
        _at(640, _loaded(618.04)),
        *_eight(641, "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 170000, KV size: 11.25 GB"),
        *_eight(642, "Memory pool end. avail mem=5.00 GB"),
    ]
    events = feed(lines)

    names = ["starting", "dist_init", "load_weights", "kv_cache"]
    assert [event.phase for event in only(events, PhaseBegan)] == names
    assert [event.phase for event in only(events, PhaseEnded)] == names
    load = next(event for event in only(events, PhaseEnded) if event.phase == "load_weights")
    assert (load.rank, load.elapsed_s) == ("TP0", 618.04)
    assert load.at == datetime(2026, 12, 1, 1, 10, 40, tzinfo=UTC)
    progress = only(events, PhaseProgress)
    assert [(event.done, event.total, event.phase) for event in progress] == [
        (0, 64, "load_weights"),
        (32, 64, "load_weights"),
        (64, 64, "load_weights"),
    ]
    assert progress[1].at == datetime(2026, 12, 1, 1, 5, 22, tzinfo=UTC)
    tokens = [event for event in only(events, Sized) if event.name == "kv_tokens"]
    assert sorted(event.rank for event in tokens) == [f"TP{rank}" for rank in range(8)]
    assert {event.value for event in tokens} == {170000}


def _loaded(seconds: float) -> str:
    return (
        f"Load weight end. elapsed={seconds:.2f} s, type=KimiK25ForConditionalGeneration, quant=compressed-tensors, "
        "avail mem=20.00 GB, mem usage=73.58 GB."
    )


def test_bar_belongs_to_the_phase_of_rank_zero() -> None:
    """Seven ranks may load the draft while rank 0, which draws the bars, still loads the target."""
    lines = [_at(0, SPECULATIVE, ""), *_eight(1, "Load weight begin. avail mem=94.00 GB")]
    lines += [_at(5, _loaded(4), f"TP{rank}") for rank in range(1, 8)]
    lines += [_at(6, "Load weight begin. avail mem=20.00 GB", f"TP{rank}") for rank in range(1, 8)]
    bars = [
        _shards(60, "00:09"),
        _at(12, _loaded(11)),
        _at(12, "Load weight begin. avail mem=20.00 GB"),
        _shards(1, "00:01", 1),
    ]

    progress = only(feed(lines + bars), PhaseProgress)
    assert [(event.phase, event.done) for event in progress] == [("load_weights", 60), ("load_draft_weights", 1)]


def test_old_versions_repeat_everything_for_the_draft() -> None:
    lines = [
        _at(0, SPECULATIVE, ""),
        *_eight(1, "Init torch distributed begin."),
        *_eight(2, "Init torch distributed ends. mem usage=0.10 GB"),
        *_eight(3, "Load weight begin. avail mem=94.00 GB"),
        "Loading safetensors checkpoint shards:  50% Completed | 1/2 [00:01<00:01,  1.0s/it]",
        *_eight(
            9,
            "Load weight end. type=DeepseekV3, dtype=torch.bfloat16, avail mem=20.00 GB, mem usage=74.00 GB.",
        ),
        *_eight(10, "KV Cache is allocated. #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB"),
        *_eight(11, "Memory pool end. avail mem=5.00 GB"),
        *_eight(12, "Capture cuda graph begin. This can take up to several minutes. avail mem=4.90 GB"),
        "Capturing batches (avail_mem=4.70 GB):  33%|███▎      | 1/3 [00:04<00:08,  4.0s/it]",
        *_eight(30, "Capture cuda graph end. Time elapsed: 18.11 s. mem usage=0.54 GB. avail mem=4.20 GB."),
        *_eight(31, "Init torch distributed begin."),
        *_eight(31, "Init torch distributed ends. mem usage=0.00 GB"),
        *_eight(32, "Load weight begin. avail mem=4.20 GB"),
        *_eight(
            33, "Load weight end. type=DeepseekModelNextN, dtype=torch.bfloat16, avail mem=3.20 GB, mem usage=1.00 GB."
        ),
        *_eight(34, "KV Cache is allocated. #tokens: 1000, K size: 0.02 GB, V size: 0.02 GB"),
        *_eight(35, "Memory pool end. avail mem=3.00 GB"),
        *_eight(36, "Capture draft cuda graph begin. This can take up to several minutes. avail mem=3.00 GB"),
        *_eight(60, "Capture draft cuda graph end. Time elapsed: 22.67 s. mem usage=0.21 GB. avail mem=2.80 GB."),
        *_eight(61, "Capture draft extend cuda graph begin. This can take up to several minutes. avail mem=2.80 GB"),
        *_eight(63, "Capture draft extend cuda graph end. Time elapsed: 1.50 s. mem usage=0.01 GB. avail mem=2.79 GB."),
        _at(64, "max_total_num_tokens=1000, chunked_prefill_size=8192, max_running_requests=48, context_len=4096"),
    ]
    events = feed(lines)

    began = [event.phase for event in only(events, PhaseBegan)]
    assert began == [
        "starting",
        "dist_init",
        "load_weights",
        "kv_cache",
        "capture_graphs",
        "load_draft_weights",
        "draft_kv_cache",
        "capture_draft_decode",
        "capture_draft_extend",
    ]
    assert elapsed(events)["capture_graphs"] == 18.11
    assert elapsed(events)["capture_draft_decode"] == 22.67
    assert elapsed(events)["load_weights"] is None
    assert [(event.phase, event.done) for event in only(events, PhaseProgress)] == [
        ("load_weights", 1),
        ("capture_graphs", 1),
    ]
    weights = {(e.role, e.value) for e in only(events, Sized) if e.name == "weight_bytes"}
    assert weights == {("target", 74 * GIB), ("draft", GIB)}
    pools = {(e.role, e.value) for e in only(events, Sized) if e.name == "kv_cache_bytes"}
    assert pools == {("target", 2 * GIB), ("draft", 2 * round(0.02 * GIB))}


def test_first_versions_say_less() -> None:
    events = feed(
        [
            _at(0, "Init torch distributed begin."),
            _at(4, "Load weight begin. avail mem=23.00 GB"),
            _at(9, "Load weight end. type=MistralForCausalLM, dtype=torch.bfloat16, avail mem=9.69 GB"),
            _at(9, "Memory pool end. avail mem=2.44 GB"),
            _at(9, "Capture cuda graph begin. This can take up to several minutes."),
            _at(12, "Capture cuda graph end. Time elapsed: 2.19 s"),
            _at(
                12, "max_total_num_tokens=56524, max_prefill_tokens=16384, max_running_requests=2049, context_len=32768"
            ),
            _at(12, "INFO:     Started server process [3831493]", ""),
            _at(13, "INFO:     Uvicorn running on http://[::1]:30000 (Press CTRL+C to quit)", ""),
            _at(14, "The server is fired up and ready to roll!", ""),
        ]
    )

    names = ["starting", "dist_init", "load_weights", "kv_cache", "capture_graphs", "http_start", "warmup"]
    assert phases(events) == [sign + name for name in names for sign in "+-"]
    assert elapsed(events)["capture_graphs"] == 2.19
    assert [(event.host, event.port) for event in only(events, Listening)] == [("", None), ("::1", 30000)]
    assert len(only(events, Ready)) == 1


def test_adaptive_speculation_captures_the_draft_more_than_once() -> None:
    lines = [
        _at(
            55,
            "Capture target verify CUDA graph begin. backend=full, num_tokens_per_bs=6, bs=[1, 2], avail mem=7.77 GB",
        ),
        _at(60, "Capture target verify CUDA graph end. elapsed=4.56 s, mem usage=0.38 GB, avail mem=7.39 GB."),
        _at(
            60, "Capture draft decode CUDA graph begin. backend=full, num_tokens_per_bs=1, bs=[1, 2], avail mem=7.39 GB"
        ),
        _at(61, "Capture draft decode CUDA graph end. elapsed=1.56 s, mem usage=0.38 GB, avail mem=7.01 GB."),
        _at(
            61, "Capture draft extend CUDA graph begin. backend=full, num_tokens_per_bs=6, bs=[1, 2], avail mem=7.01 GB"
        ),
        _at(62, "Capture draft extend CUDA graph end. elapsed=0.74 s, mem usage=0.14 GB, avail mem=6.87 GB."),
        _at(
            62, "Capture draft decode CUDA graph begin. backend=full, num_tokens_per_bs=1, bs=[1, 2], avail mem=6.77 GB"
        ),
        _at(63, "Capture draft decode CUDA graph end. elapsed=0.85 s, mem usage=0.09 GB, avail mem=6.68 GB."),
    ]
    ends = [(event.phase, event.round, event.elapsed_s) for event in only(feed(lines), PhaseEnded)]

    assert ends == [
        ("starting", 1, None),
        ("capture_verify", 1, 4.56),
        ("capture_draft_decode", 1, 1.56),
        ("capture_draft_extend", 1, 0.74),
        ("capture_draft_decode", 2, 2.41),
    ]


@pytest.mark.parametrize(
    ("wording", "phase"),
    [
        ("Capture target prefill CUDA graph", "capture_prefill"),
        ("Capture target decode CUDA graph", "capture_decode"),
        ("Capture target verify CUDA graph", "capture_verify"),
        ("Capture draft prefill CUDA graph", "capture_draft_prefill"),
        ("Capture draft verify CUDA graph", "capture_draft_verify"),
        ("Capture single-CG draft extend", "capture_draft_extend"),
        ("Capture piecewise CUDA graph", "capture_prefill"),
        ("Capture cuda graph", "capture_graphs"),
        ("Capture cpu graph", "capture_graphs"),
        ("Capture something new CUDA graph", "capture_graphs"),
    ],
)
def test_wordings_of_a_capture(wording: str, phase: str) -> None:
    events = feed(
        [_at(0, f"{wording} begin. This can take several minutes."), _at(7, f"{wording} end. elapsed=7.00 s")]
    )
    assert phases(events)[2:] == [f"+{phase}", f"-{phase}"]
    assert elapsed(events)[phase] == 7.0


def test_log_whose_beginning_is_gone() -> None:
    lines = [
        _at(1334, f"Capture cuda graph end. Time elapsed: {1334 - rank / 10} s", f"TP{rank}") for rank in (4, 3, 0)
    ]
    events = feed(lines)

    began = [event for event in only(events, PhaseBegan) if event.phase == "capture_graphs"]
    assert [event.at for event in began] == [datetime(2026, 12, 1, 1, 0, 0, 400000, tzinfo=UTC)]
    assert elapsed(events)["capture_graphs"] == 1334.0


def test_weights_that_come_after_the_graphs() -> None:
    events = feed(
        [
            _at(0, "Load weight begin. avail mem=94.00 GB"),
            _at(1, "Prepared capture-safe model in 0.50 s"),
            _at(1, "Started checkpoint prefetching"),
            _at(2, "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 10, KV size: 1.00 GB"),
            _at(2, "Memory pool end. avail mem=5.00 GB"),
            _at(3, "Capture target decode CUDA graph begin. backend=full, avail mem=4.90 GB"),
            _at(9, "Capture target decode CUDA graph end. elapsed=6.00 s, mem usage=0.38 GB, avail mem=4.50 GB."),
            _at(
                20,
                "Load weight end. Committed real weights after CUDA graph capture in 17.50 s (overlap total 19.00 s)",
            ),
        ]
    )
    assert phases(events)[-3:] == ["+capture_decode", "-capture_decode", "-load_weights"]
    assert only(events, PhaseEnded)[-1].at == datetime(2026, 12, 1, 1, 0, 20, tzinfo=UTC)


def test_kv_cache_sized_after_capture() -> None:
    events = feed(
        [
            _at(0, "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 999999, KV size: 99.00 GB"),
            _at(1, "Memory pool end. avail mem=5.00 GB"),
            _at(
                2,
                "Post-capture KV sizing: KV cache allocated. dtype: fp8, #tokens: 4096, KV size: 2.50 GB",
            ),
        ]
    )
    assert [(e.name, e.value) for e in only(events, Sized) if e.name.startswith("kv")] == [
        ("kv_tokens", 4096),
        ("kv_cache_bytes", round(2.5 * GIB)),
    ]


def test_two_pools_of_one_model_are_added() -> None:
    line = "KV Cache is allocated. dtype: torch.bfloat16, #tokens: {}, K size: 1.00 GB, V size: 1.00 GB"
    events = feed(
        [_at(0, "SWA " + line.format(10)), _at(0, line.format(20)), _at(1, "Memory pool end. avail mem=5.00 GB")]
    )
    sizes = [(e.role, e.value) for e in only(events, Sized) if e.name == "kv_cache_bytes"]
    assert sizes == [("target", 2 * GIB), ("target", 4 * GIB)]


BAR = "Multi-thread loading shards:  25% Completed | 2/8 [00:01<00:02,  2.17it/s]"
BEGIN = _at(0, "Load weight begin. avail mem=94.00 GB")


@pytest.mark.parametrize(
    "line",
    [
        BAR,
        f"\x1b[32m{BAR}\x1b[0m",
        f"[Gloo] Rank 0 is connected to 7 peer ranks{BAR}",
        f"Multi-thread loading shards:  12% Completed | 1/8 [00:00<00:05,  1.28it/s]{BAR}",
        f"{BAR}[aiter] import [module_rmsnorm] under /opt/aiter/jit/module_rmsnorm.so",
        "Loading safetensors checkpoint shards:  25% Completed | 2/8 [00:01<00:01, 00:01 22.38it/s]",
        "Loading safetensors using Fastsafetensor loader:  25%|██▌       | 2/8 [00:01<00:03,  1.9it/s]",
    ],
)
def test_bars_glued_to_other_lines(line: str) -> None:
    progress = only(feed([BEGIN, line]), PhaseProgress)
    assert [(event.done, event.total, event.unit, event.elapsed_s) for event in progress] == [(2, 8, "shards", 1.0)]


def test_record_glued_behind_a_bar() -> None:
    ready = _at(9, "The server is fired up and ready to roll!", "")
    events = feed([BEGIN, BAR + ready, "[Gloo] connected " + _at(10, "Load weight begin. avail mem=9 GB", "TP1")])

    assert len(only(events, PhaseProgress)) == 1
    assert only(events, Ready)[0].at == datetime(2026, 12, 1, 1, 0, 9, tzinfo=UTC)
    assert only(events, Sized)[-1].rank == "TP1"


def test_peek_shows_progress_and_changes_nothing() -> None:
    parser = SglangEngine().parser(tz=UTC)
    feed([BEGIN], parser)
    before = parser.state()

    shown = parser.peek(BAR, SEEN)
    assert [event.done for event in only(shown, PhaseProgress)] == [2]
    assert parser.peek("Capturing batches (bs=512 avail_mem=43.46 GB): ", SEEN) == []
    assert parser.state() == before
    assert parser.feed(BAR, SEEN) == shown
    assert parser.feed(BAR, SEEN) == []  # a bar that stands still is no news


@pytest.mark.parametrize(
    ("label", "unit"),
    [
        ("Loading safetensors using InstantTensor loader", "tensors"),
        ("Loading safetensors using Runai Model Streamer", "tensors"),
        ("Loading pt checkpoint shards", "shards"),
        ("Multi-thread loading pt checkpoint shards", "shards"),
    ],
)
def test_units_of_loaders(label: str, unit: str) -> None:
    progress = only(feed([BEGIN, f"{label}:  50% Completed | 5/10 [1:02:03<00:01, 3.2it/s]"]), PhaseProgress)
    assert [(event.unit, event.elapsed_s) for event in progress] == [(unit, 3723.0)]


def test_bars_of_others_are_no_progress() -> None:
    lines = [BEGIN, "Fetching 12 files:  25%|██▌       | 3/12 [00:01<00:03,  1.9it/s]", "disk 40%/home 1/2 [ok]"]
    assert only(feed(lines), PhaseProgress) == []


def test_compilers_are_told() -> None:
    events = feed(
        [
            _at(0, "Running FlashInfer autotune with cache: /home/u/.cache"),
            _at(5, "FlashInfer autotune completed."),
            "2026-12-01 01:00:06,853 - INFO - flashinfer.jit: Loading JIT ops: batch_prefill",
            "[aiter] finish build [module_rmsnorm], cost 12.5s",
            _at(7, "Entering DeepGEMM JIT Pre-Compile session. It may take a long time"),
            _at(8, "The server is fired up and ready to roll!", ""),
            _at(9, "Triton kernel '_fwd_kernel' took 3.25 s to compile after serving started."),
        ]
    )
    assert [(event.what, event.seconds, event.after_ready) for event in only(events, Compiled)] == [
        ("FlashInfer autotune", None, False),
        ("batch_prefill", None, False),
        ("module_rmsnorm", 12.5, False),
        ("DeepGEMM", None, False),
        ("_fwd_kernel", 3.25, True),
    ]
    assert "+autotune" in phases(events)


def test_warnings_are_told_once() -> None:
    line = _at(0, "max_total_tokens=131072 is larger than the profiled value 9000. Use the profiled value instead.")
    deprecated = "'--disable-radix' is deprecated and will be removed in a future release."
    events = feed([line, line, deprecated, _at(1, "Page size is changed to 64 for this backend")])
    assert [event.what for event in only(events, Warned)] == [
        "max_total_tokens_reduced",
        "deprecated_flag",
        "setting_changed",
    ]


def test_quantization_is_told() -> None:
    described = only(feed([BEGIN, _at(9, _loaded(9))]), Described)
    assert [(event.name, event.value) for event in described] == [
        ("model_class", "KimiK25ForConditionalGeneration"),
        ("quantization", "compressed-tensors"),
    ]


def test_unknown_lines_say_nothing() -> None:
    lines = ["", "   ", "[", "[2026-99-99 99:99:99] Load weight", "[2026-12-01 01:00:00", "100%", "%/[", "\x1b[", "KV "]
    events: list[LogEvent] = feed([*lines, "Capture", "Init", "server_args=", "server_args={", "Load weight end"])
    assert not only(events, Failed)
    assert not only(events, Ready)


def test_second_start_in_the_same_log() -> None:
    parser = SglangEngine().parser(tz=UTC)
    first = feed([_at(0, SPECULATIVE, ""), BEGIN, _at(9, "The server is fired up and ready to roll!", "")], parser)
    second = feed([_at(100, SPECULATIVE, ""), _at(110, "Load weight begin. avail mem=94.00 GB")], parser)

    assert only(first, Restarted) == []
    assert isinstance(second[0], Restarted)
    assert phases(second) == ["+starting", "-starting", "+load_weights"]
