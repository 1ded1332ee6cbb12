"""Room for the KV cache: none left after the weights, too little for one request, or used up while serving."""

from __future__ import annotations

import math

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule
from sitrepd.launches.diagnosis.rules._sizes import higher_fraction, more_gpus


def _least(case: Case) -> str:
    """The least viable fraction that the message names, rounded up to what one would type."""
    try:
        least = float(case.word("least"))
    except ValueError:
        return f"More GPUs or a quantized checkpoint; or raise {case.known.flag('mem')} towards 0.95"
    step = min(0.99, math.ceil(least * 100 + 0.5) / 100)
    if least >= 0.97:
        return (
            f"{case.known.flag('tp')} higher or a quantized checkpoint: no fraction is enough ({least:g} would be "
            f"needed)."
        )
    now = case.word("now") or case.known.get("mem_fraction_static")
    return f"{case.known.flag('mem')} {step:g} or more (now {now}; the least that works is {least:g})."


def _raise_fix(case: Case) -> str:
    return f"{higher_fraction(case)}; if that is not enough {more_gpus(case)} or a quantized checkpoint."


def _context_fix(case: Case) -> str:
    fits = case.word("fits")
    context = f"{case.known.flag('context')} {fits or '32768'}"
    return f"{context}{' or less' if fits else ''}; or {_raise_fix(case)}"


RULES: tuple[Rule, ...] = (
    rule(
        "memory_kv_pool",
        r"leave no GPU memory for the KV cache(?: under --mem-fraction-static=(?P<now>\d+(?:\.\d+)?(?:e-\d+)?))?"
        r"(?:.*?Raise --mem-fraction-static above (?P<least>\d+(?:\.\d+)?))?",
        "The weights leave no room for the KV cache under the memory fraction",
        "The loaded weights alone take more than the memory fraction allows, so nothing is left for the KV cache.",
        _least,
    ),
    rule(
        "memory_kv_pool",
        r"Not enough memory\. Please try to increase --mem-fraction-static|No available memory for the cache blocks"
        r"|max_total_tokens=\d+ is larger than the profiled value -\d+|[Nn]ot enough memory for (?:the )?KV"
        r"|Not enough memory for (?:mamba|the) |Trying to create tensor with negative dimension"
        r"|max_total_num_tokens=-?0?,"
        r"|profiled (?:value|max_total_num_tokens)[ =:]+(?:-\d|0\b)|The memory pool is too small"
        r"|max_total_num_tokens (?:is|=) ?(?:-\d|0\b)"
        r"|Available KV cache memory: -\d"
        r"|needs ~?[\d.]+ ?Gi?B but only [\d.]+ ?Gi?B",
        "The weights leave no room on the GPU for the KV cache",
        "After the weights, less than nothing is left of the memory fraction for the KV cache.",
        _raise_fix,
    ),
    rule(
        "memory_kv_pool",
        r"(?:larger than|exceeds) the (?:maximum number of tokens that can be stored in KV cache \((?P<fits>\d+)\)"
        r"|available KV cache memory)"
        r"|KV cache is needed, which is larger than the available KV cache memory(?:.*?estimated maximum model length "
        r"is (?P<fits2>\d+))?"
        r"|context.?length .{0,60}(?:exceeds|larger than).{0,40}KV cache",
        "The KV cache is too small for one request of the context length",
        "What is left after the weights does not hold a single request of the length asked for.",
        _context_fix,
    ),
)

SERVING: tuple[Rule, ...] = (
    rule(
        "memory_runtime",
        r"(?:Prefill|Decode) out of memory\. Try to lower your batch size|out of KV cache|alloc_for_extend.*fail"
        r"|\balloc_\w+ runs out of memory"
        r"|KV [Cc]ache pool is full|No available slots|token_to_kv_pool.*(?:exhaust|full)|Out of memory\. Try",
        "Out of room in the KV cache while serving",
        "More tokens were in flight than the KV cache holds, and the server could not take a request back.",
        "{flag_running} lower; {flag_prefill} 2048; a higher {flag_mem} gives more tokens if GPU memory is free.",
    ),
)
