"""The replay's command line: its own few options, and any SGLang flag beside them."""

from __future__ import annotations

import argparse
import ast
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

VERSIONS = ("0.5.16", "0.5.23")
FAILURES = ("oom", "missing-weights", "draft-shape", "hang")
_ALIASES = {"tp": "tp_size", "tensor_parallel_size": "tp_size", "model": "model_path"}

PREFILL_SIZES = [*range(4, 33, 4), *range(48, 257, 16), *range(288, 513, 32), *range(576, 1025, 64)]
PREFILL_SIZES += [*range(1280, 4097, 256), *range(4608, 8193, 512)]
BATCH_SIZES = [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 40, 48]


@dataclass(frozen=True)
class ReplayArgs:
    """What was asked for; `resolved` is what SGLang would print and answer as its server arguments."""

    port: int
    duration_s: float
    steps: int
    seed: int
    version: str
    fail: str | None
    skip_s: float
    cold: bool
    resolved: dict[str, Any]

    @property
    def modern(self) -> bool:
        """Whether the lines are those of 0.5.23 (else 0.5.16)."""
        return self.version != VERSIONS[0]

    @property
    def ranks(self) -> range:
        return range(self.resolved["tp_size"])

    @property
    def draft_tokens(self) -> int:
        return int(self.resolved["speculative_num_draft_tokens"] or 0)


def parse(argv: Sequence[str]) -> ReplayArgs:
    """Read argv; a flag that the replay does not know is taken for one of SGLang's and shown as resolved."""
    parser = _parser()
    own, rest = parser.parse_known_args(argv)
    resolved = {**_defaults(), **_sglang_flags(rest)}
    if resolved["tp_size"] not in range(1, 65):
        parser.error("argument --tp-size: 1 to 64 ranks")
    resolved |= {"host": "127.0.0.1", "port": own.port, "launch_command": shlex.join(rest)}
    resolved["tokenizer_path"] = resolved["tokenizer_path"] or resolved["model_path"]
    resolved["served_model_name"] = resolved["served_model_name"] or resolved["model_path"]
    resolved |= _speculation(own.steps, resolved)
    return ReplayArgs(
        own.port, own.duration, own.steps, own.seed, own.engine_version, own.fail, own.skip, own.cold, resolved
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m sitrepd.demo.replay",
        description="Play an SGLang start in SGLang's own line formats, on 127.0.0.1. No model is loaded.",
        epilog="SGLang's own flags may follow, also `-m sglang.launch_server`: they are shown as resolved arguments.",
        allow_abbrev=False,
    )
    parser.add_argument("--port", type=_port, default=8000)
    parser.add_argument("--duration", type=_seconds, default=90.0, metavar="S", help="seconds until ready (90)")
    parser.add_argument("--skip", type=_seconds, default=0.0, metavar="S", help="begin S seconds into the start")
    parser.add_argument("--cold", action="store_true", help="no weights in the page cache: all shards take as long")
    parser.add_argument("--steps", "--speculative-num-steps", type=_steps, default=3, help="draft steps; 0: no draft")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--engine-version", choices=VERSIONS, default=VERSIONS[-1], help="whose lines are printed")
    parser.add_argument("--fail", choices=FAILURES, help="crash (or hang) as SGLang does")
    return parser


def _port(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 65535:
        raise argparse.ArgumentTypeError("a port is 0 to 65535")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value < 86400:
        raise argparse.ArgumentTypeError("seconds above 0 and below a day")
    return value


def _steps(text: str) -> int:
    value = int(text)
    if not 0 <= value <= 64:
        raise argparse.ArgumentTypeError("0 to 64 steps")
    return value


def _sglang_flags(words: Sequence[str]) -> dict[str, Any]:
    """`--some-flag value` becomes some_flag: value; a flag without a value becomes True."""
    flags: dict[str, Any] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, _, value = word[2:].replace("-", "_").partition("=")
            name = _ALIASES.get(name, name)
            flags[name] = _value(word.partition("=")[2]) if value else True
        elif name:
            flags[name], name = _value(word), ""
    return flags


def _value(text: str) -> str | int | float:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value if isinstance(value, int | float) else text


def _speculation(steps: int, resolved: dict[str, Any]) -> dict[str, Any]:
    """SGLang's own adjustment: with topk 1 the draft tokens are steps + 1, whatever was asked."""
    if not steps:
        return dict.fromkeys(
            ["speculative_algorithm", "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens"]
        ) | {"speculative_draft_model_path": None}
    topk = resolved.get("speculative_eagle_topk") or 1
    asked = resolved.get("speculative_num_draft_tokens")
    return {
        "speculative_algorithm": resolved.get("speculative_algorithm") or "EAGLE3",
        "speculative_num_steps": steps,
        "speculative_eagle_topk": topk,
        "speculative_num_draft_tokens": steps + 1 if topk == 1 or not asked else asked,
    }


def _defaults() -> dict[str, Any]:
    return {
        "model_path": "/models/kimi-k2.5-int4",
        "tokenizer_path": None,
        "load_format": "auto",
        "trust_remote_code": False,
        "context_length": None,
        "dtype": "auto",
        "quantization": None,
        "kv_cache_dtype": "auto",
        "mem_fraction_static": 0.88,
        "max_running_requests": 48,
        "chunked_prefill_size": 8192,
        "max_prefill_tokens": 16384,
        "schedule_policy": "fcfs",
        "page_size": 1,
        "num_continuous_decode_steps": 1,
        "tp_size": 8,
        "pp_size": 1,
        "dp_size": 1,
        "device": "cuda",
        "watchdog_timeout": 300,
        "host": "127.0.0.1",
        "port": 8000,
        "api_key": None,
        "served_model_name": None,
        "enable_metrics": False,
        "decode_log_interval": 40,
        "attention_backend": "flashinfer",
        "sampling_backend": "flashinfer",
        "disable_custom_all_reduce": False,
        "speculative_algorithm": "EAGLE3",
        "speculative_draft_model_path": "/models/kimi-k2.5-eagle3",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
    }
