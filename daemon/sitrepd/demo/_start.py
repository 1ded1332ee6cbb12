"""The phases of the start, in the order and with the proportions of EAGLE-3 starts recorded on an H200.

Weight loading is stretched to two thirds of the duration, as it dominates for a checkpoint of 547 GB.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sitrepd.demo import _crashes
from sitrepd.demo._args import BATCH_SIZES, PREFILL_SIZES, ReplayArgs
from sitrepd.demo._tape import Bar, Tape, shuffled

SHARDS = 64
KV_TOKENS = 206432
CONTEXT_LENGTH = 262144
WEIGHT_GB = 66.93
KV_GB = 13.51
_DRAFT_GB = 1.31
_CACHED_SHARDS = 12


@dataclass(frozen=True)
class _Graphs:
    """One CUDA graph stage; `first` is the share of its time that the first graph takes (compilation)."""

    label: str
    key: str
    until: float
    per_request: int
    mem_gb: float
    first: float = 0.0

    @property
    def prefill(self) -> bool:
        return self.key.endswith("prefill")


class Start:
    """Plays everything up to the listening socket, and keeps the times that the engine would report."""

    def __init__(self, tape: Tape, args: ReplayArgs) -> None:
        self.args = args
        self.timings: dict[str, float] = {}
        self.graph_timings = dict.fromkeys(
            ["prefill", "decode", "target_verify", "draft_prefill", "draft_decode", "draft_extend"], 0.0
        )
        self._tape = tape
        self._free_gb = {rank: 93.87 - tape.random.random() / 10 for rank in args.ranks}

    def play(self) -> None:
        self._arguments()
        self._distributed(0.085)
        self._target_weights()
        if self.args.steps:
            self._draft_weights()
        self._pools()
        for stage in self._graph_stages():
            self._capture(stage)
        self._sizes()

    def _say(self, message: str, rank: int) -> None:
        self._tape.record(message, rank if len(self.args.ranks) > 1 else None)

    def _everyone(self, message: str) -> None:
        """Every rank says it, in its own order; {avail} is the rank's free memory in GiB."""
        for rank in shuffled(self._tape, self.args.ranks):
            self._say(message.replace("{avail}", f"{self._free_gb[rank]:.2f}"), rank)

    def _take(self, gb: float) -> None:
        self._free_gb = {rank: free - gb for rank, free in self._free_gb.items()}

    def _arguments(self) -> None:
        self._tape.until(0.03)
        if self.args.steps:
            self._tape.record(
                "Max running requests is reset to 48 for speculative decoding. You can override this by "
                "explicitly setting --max-running-requests."
            )
        self._tape.until(0.035)
        resolved = {key: value for key, value in self.args.resolved.items() if key != "launch_command"}
        self._tape.record(f"server_args={_shown(resolved, modern=self.args.modern)}")
        self._tape.record("Using default HuggingFace chat template with detected content format: openai")

    def _distributed(self, until: float) -> None:
        self._tape.until(until - 0.02)
        began = self._tape.now_s()
        modern = self.args.modern
        self._everyone("Init parallel begin." if modern else "Init torch distributed begin.")
        self._say("sglang is using nccl==2.30.7", 0)
        self._tape.until(until - 0.005)
        elapsed_s = self._tape.now_s() - began
        if modern:
            self._everyone(f"Init parallel ends. elapsed={elapsed_s:.2f} s")
            self._everyone("Memory baseline taken. mem usage=0.93 GB")
        else:
            self._everyone(f"Init torch distributed ends. elapsed={elapsed_s:.2f} s, mem usage=0.93 GB")
        self._tape.until(until)

    def _target_weights(self) -> None:
        began = self._tape.now_s()
        if self.args.fail == "missing-weights":
            self._everyone("Load weight begin. avail mem={avail} GB")
            _crashes.missing_weights(self._tape, self.args)
        with_bar = self._begin_weights(SHARDS)
        for n, share in enumerate(_shard_shares(self._tape, 0.085, 0.70, 0 if self.args.cold else _CACHED_SHARDS)):
            if self.args.fail == "hang" and n == SHARDS * 5 // 8:
                threading.Event().wait()
            self._tape.until(share)
            with_bar.advance()
        with_bar.close()
        self._take(WEIGHT_GB)
        self._end_weights(began, "KimiK25ForConditionalGeneration, quant=compressed-tensors", WEIGHT_GB, 0.715, 0.73)
        self.timings["load_weight"] = self._tape.now_s() - began

    def _begin_weights(self, shards: int) -> Bar:
        """Rank 0 draws; the ranks that begin after it are glued to its bar, as there is no newline yet."""
        bar: Bar | None = None
        for rank in shuffled(self._tape, self.args.ranks):
            self._say(f"Load weight begin. avail mem={self._free_gb[rank]:.2f} GB", rank)
            if rank == 0:
                bar = Bar(self._tape, shards, "Multi-thread loading shards", shards=True)
        assert bar is not None
        return bar

    def _end_weights(self, began: float, kind: str, gb: float, first: float, last: float) -> None:
        order = [rank for rank in shuffled(self._tape, self.args.ranks) if rank] + [0]
        for n, rank in enumerate(order, start=1):
            self._tape.until(first + (last - first) * n / len(order))
            elapsed_s = self._tape.now_s() - began
            self._say(
                f"Load weight end. elapsed={elapsed_s:.2f} s, type={kind}, "
                f"avail mem={self._free_gb[rank]:.2f} GB, mem usage={gb:.2f} GB.",
                rank,
            )

    def _draft_weights(self) -> None:
        if self.args.modern:
            self._everyone("Memory baseline taken. mem usage=0.00 GB")
        else:
            self._everyone("Init torch distributed begin.")
            self._everyone("Init torch distributed ends. elapsed=0.00 s, mem usage=0.00 GB")
        began = self._tape.now_s()
        bar = self._begin_weights(1)
        if self.args.fail == "draft-shape":
            self._tape.raw("\n")
            _crashes.draft_shape(self._tape, self.args)
        self._tape.until(0.742)
        bar.advance()
        bar.close()
        self._take(_DRAFT_GB)
        self._end_weights(began, "LlamaForCausalLMEagle3", _DRAFT_GB, 0.743, 0.748)

    def _pools(self) -> None:
        began = self._tape.now_s()
        self._tape.until(0.752)
        self._take(KV_GB)
        allocated = f"KV Cache is allocated. dtype: torch.bfloat16, #tokens: {KV_TOKENS}, "
        self._pool(f"{allocated}KV size: {KV_GB:.2f} GB")
        if self.args.steps:
            self._tape.until(0.757)
            self._take(0.78)
            self._pool(f"{allocated}K size: 0.39 GB, V size: 0.39 GB")
        self._tape.until(0.76)
        self.timings["kv_cache_allocation"] = self._tape.now_s() - began

    def _pool(self, message: str) -> None:
        for rank in shuffled(self._tape, self.args.ranks):
            self._say(message, rank)
            self._say(f"Memory pool end. avail mem={self._free_gb[rank]:.2f} GB", rank)

    def _graph_stages(self) -> list[_Graphs]:
        if not self.args.steps:
            return [
                _Graphs("target prefill", "prefill", 0.90, 0, 1.57),
                _Graphs("target decode", "decode", 0.955, 1, 0.19),
            ]
        return [
            _Graphs("target prefill", "prefill", 0.865, 0, 1.57),
            _Graphs("target verify", "target_verify", 0.88, self.args.draft_tokens, 0.19),
            _Graphs("draft prefill", "draft_prefill", 0.894, 0, 1.61),
            _Graphs("draft decode", "draft_decode", 0.943, 1, 0.04, first=0.6),
            _Graphs("draft extend", "draft_extend", 0.955, self.args.draft_tokens, 0.05),
        ]

    def _capture(self, stage: _Graphs) -> None:
        began = self._tape.now_s()
        sizes = PREFILL_SIZES if stage.prefill else BATCH_SIZES
        self._everyone(f"Capture {stage.label} CUDA graph begin. {self._begin_text(stage, sizes)}")
        self._draw_capture(stage, sizes)
        self._take(stage.mem_gb)
        elapsed_s = self.graph_timings[stage.key] = self._tape.now_s() - began
        moved = f"bs={BATCH_SIZES}, " if self.args.modern and stage.label.startswith("target") else ""
        shown = "" if stage.prefill else moved
        self._everyone(
            f"Capture {stage.label} CUDA graph end. {shown}elapsed={elapsed_s:.2f} s, "
            f"mem usage={stage.mem_gb:.2f} GB, avail mem={{avail}} GB."
        )

    def _begin_text(self, stage: _Graphs, sizes: Sequence[int]) -> str:
        """0.5.23 moved the batch sizes of the target's graphs from this line to the one at the end."""
        if stage.prefill:
            return f"backend=breakable, num_tokens={list(sizes)}, avail mem={{avail}} GB"
        listed = "" if self.args.modern and stage.label.startswith("target") else f"bs={list(sizes)}, "
        return f"backend=full, num_tokens_per_req={stage.per_request}, {listed}avail mem={{avail}} GB"

    def _draw_capture(self, stage: _Graphs, sizes: Sequence[int]) -> None:
        bar = Bar(self._tape, len(sizes))
        free_gb, start = self._free_gb[0], self._tape.now_s() / self._tape.duration_s
        for n, size in enumerate(reversed(sizes), start=1):
            bar.describe(self._capture_text(stage, size, free_gb))
            if self.args.fail == "oom" and stage.key != "prefill" and n == len(sizes) // 2:
                self._tape.raw("\n")
                _crashes.out_of_memory(self._tape, self.args)
            done = stage.first + (1 - stage.first) * n / len(sizes)
            self._tape.until(start + (stage.until - start) * done)
            free_gb -= stage.mem_gb / len(sizes)
            bar.advance()
        bar.close()

    def _capture_text(self, stage: _Graphs, size: int, free_gb: float) -> str:
        if not stage.prefill:
            return f"Capturing batches (bs={size} avail_mem={free_gb:.2f} GB)"
        what = "prefill shape" if self.args.modern else "num tokens"
        return f"Capturing {what} (num_tokens={size} avail_mem={free_gb:.2f} GB)"

    def _sizes(self) -> None:
        resolved = self.args.resolved
        self._say(
            f"max_total_num_tokens={KV_TOKENS}, chunked_prefill_size={resolved['chunked_prefill_size']}, "
            f"max_prefill_tokens={resolved['max_prefill_tokens']}, "
            f"max_running_requests={resolved['max_running_requests']}, context_len={CONTEXT_LENGTH}, "
            f"available_gpu_mem={self._free_gb[0]:.2f} GB",
            0,
        )
        self.timings["scheduler_e2e"] = self._tape.now_s() - self._tape.duration_s * 0.065
        self.timings["tokenizer_e2e"] = self._tape.now_s()
        if not self.args.modern:
            self._say("Tree cache initialized: source=default impl=RadixCache hybrid_swa=False hybrid_ssm=False", 0)
            return
        self._say("Init Unified Radix Cache. Components: (<ComponentType.FULL: 0>,). Tree Core: RustUnifiedTreeCore", 0)
        self._say("Tree cache initialized: source=default impl=UnifiedRadixCache hybrid_swa=False hybrid_ssm=False", 0)
        self._tape.record(_startup_line(self.timings, self.graph_timings))

    def available_gb(self) -> float:
        """Free memory of rank 0 after everything, in GiB."""
        return self._free_gb[0]


def _startup_line(timings: dict[str, float], graphs: dict[str, float]) -> str:
    inner = ", ".join(f"{key}={value:.2f}" for key, value in graphs.items())
    outer = [f"{key}={timings[key]:.2f}" for key in ("load_weight", "kv_cache_allocation", "scheduler_e2e")]
    tokenizer = f"tokenizer_e2e={timings['tokenizer_e2e']:.2f}"
    return f"Engine startup timings (s): {', '.join(outer)}, cuda_graph={{{inner}}}, {tokenizer}"


def _shown(resolved: dict[str, Any], *, modern: bool) -> str:
    """A dict since 0.5.22, a dataclass before."""
    if modern:
        return repr(resolved)
    return f"ServerArgs({', '.join(f'{key}={value!r}' for key, value in resolved.items())})"


def _shard_shares(tape: Tape, start: float, end: float, cached: int) -> list[float]:
    """When each shard is done: `cached` ones come from the page cache, then each takes about as long as the next."""
    weights = [0.15 if n < cached else 0.85 + 0.3 * tape.random.random() for n in range(SHARDS)]
    shares, done, total = [], 0.0, sum(weights)
    for weight in weights:
        done += weight
        shares.append(start + (end - start) * done / total)
    return shares
