"""Advice in the words of the engine whose log it is: what only SGLang takes is left out for another."""

from __future__ import annotations

import re

_OF_VLLM = (
    ("pip show sglang", "pip show vllm"),
    ("'sglang==VERSION'", "the vllm release anew"),
    ("pip install -U sglang transformers", "pip install -U vllm transformers"),
    ("torch, torchvision, sglang-kernel (sgl-kernel) and flashinfer", "torch, torchvision, vllm and flashinfer"),
    ("torch, sglang-kernel and flashinfer", "torch, vllm and flashinfer"),
    ("sglang-kernel (sgl-kernel), flashinfer and torch builds", "vllm, flashinfer and torch builds"),
    ("python -m sglang.launch_server --help", "vllm serve --help"),
    ("of --dist-init-addr", "of --master-addr"),
    ("the same --dist-init-addr HOST:PORT", "the same --master-addr and --master-port"),
)
_ONLY_SGLANG = re.compile(
    r"SGLANG_|sglang|sgl-kernel|--(?:dist-init-addr|nccl-port|skip-server-warmup|watchdog-timeout|mem-fraction-static"
    r"|disable-cuda-graph|sampling-backend|moe-runner-backend|chunked-prefill-size|weight-loader-disable-mmap"
    r"|speculative-\S+|tp-size|context-length|cuda-graph-\S+|max-running-requests|enable-deterministic-inference"
    r"|attention-backend (?:triton|flashinfer))\b"
)
_CLAUSE = re.compile(r"(?<=[;.]) +(?=\S)")
_NOTHING_LEFT = "Look for this message in the issues of the engine, and at the lines around it in the log."


def in_words_of(engine: str, fix: str) -> str:
    """The fix as it is for SGLang and where the engine is not known."""
    if engine in ("", "sglang"):
        return fix
    for before, after in _OF_VLLM:
        fix = fix.replace(before, after)
    clauses = _CLAUSE.split(fix)
    kept = [clause for clause in clauses if not _ONLY_SGLANG.search(clause)]
    if len(kept) == len(clauses):
        return fix
    told = " ".join(kept).rstrip(";. ")
    told = re.sub(r"^(?:or|and) ", "", told)
    return f"{told[:1].upper()}{told[1:]}." if told else _NOTHING_LEFT
