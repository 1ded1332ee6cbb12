"""GPU memory: for the cache, for graphs, while serving, and held by somebody else."""

from __future__ import annotations

import math
import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_OOM = (
    r"CUDA out of memory|torch\.OutOfMemoryError|torch\.cuda\.OutOfMemoryError|HIP out of memory"
    r"|cudaErrorMemoryAllocation"
    r"|CUDA (?:driver |runtime )?[Ee]rror(?: \d+)?: out of memory|failed with error:? (?:code )?out of memory"
    r"|CUDA_ERROR_OUT_OF_MEMORY|CUBLAS_STATUS_ALLOC_FAILED"
    r"|NPU out of memory|(?<!exceptions\.)OutOfMemoryError"
    r"|error:? 2 \(out of memory\)|cuMemCreate.*out of memory|ran out of (?:GPU )?memory"
    r"|Triton Error \[CUDA\]: out of memory"
    r"|(?:XPU|MUSA|MLU|HPU|GCU) out of memory|UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY"
    r"|nrt_tensor_allocate status=4\b|Failed to alloc DEVICE memory"
)
_OTHER = re.compile(r"Process (\d+) has ([\d.]+) ([GM]iB) memory in use")
_CAPACITY = re.compile(r"total capacity of ([\d.]+) GiB")
_ALLOCATED = re.compile(r"([\d.]+) ([GM]iB) is allocated by PyTorch")
_OWN = re.compile(r"this process has ([\d.]+) ([GM]iB) memory in use")
_TRIED = re.compile(r"Tried to allocate ([\d.]+ [KMG]iB)")
_FOREIGN_SHARE = 0.10
_CONTEXT_GIB = 3.0


def _gib(value: str, unit: str) -> float:
    return float(value) / (1 if unit == "GiB" else 1024)


def _others(case: Case) -> list[tuple[str, float]]:
    """Processes beside this one; in a container its own number is another, so one that fits its size is left out."""
    others = [(pid, _gib(size, unit)) for pid, size, unit in _OTHER.findall(case.text)]
    if _OWN.search(case.text):
        return others
    own = _ALLOCATED.search(case.text)
    used = _gib(*own.groups()) if own else 0.0
    rest = sorted(others, key=lambda one: abs(one[1] - used))
    if not rest:
        return []
    capacity = _CAPACITY.search(case.text)
    # Two processes cannot hold more than there is: then it is this one, under the number it has outside.
    too_much = capacity is not None and rest[0][1] + used > float(capacity[1])
    return rest[1:] if len(rest) > 1 or rest[0][1] - used < _CONTEXT_GIB or too_much or not own else rest


def foreign_gib(case: Case) -> float:
    """GiB that processes other than the launch's own hold on the GPU that ran out."""
    capacity = _CAPACITY.search(case.text)
    held = sum(size for _, size in _others(case))
    return held if capacity and held > _FOREIGN_SHARE * float(capacity[1]) else 0.0


def _oom_category(case: Case) -> str:
    if foreign_gib(case) and case.stage in ("", "load", "kv", "capture"):
        return "gpu_occupied"
    if _little_at_begin(case) or (case.stage == "" and case.incident.phase == "dist_init"):
        return "gpu_occupied"
    stages = {
        "load": "memory_kv_pool",
        "kv": "memory_kv_pool",
        "capture": "memory_cuda_graph",
        "serve": "memory_runtime",
    }
    return stages.get(case.stage, "memory_kv_pool" if _is_early(case) else "memory_runtime")


def _is_unsure(case: Case) -> bool:
    return not case.is_placed and _oom_category(case) != "gpu_occupied"


def _is_early(case: Case) -> bool:
    """Whether no step of the start was over that takes much memory."""
    return (case.incident.phase == "starting" and bool(case.known.get("model_path"))) or re.search(
        r"[Ss]hard[\w ]{0,30}(?:[Ss]tart|load)", case.text
    ) is not None


def _little_at_begin(case: Case) -> bool:
    """Whether less than half of the GPU was free when the first weights were to be loaded."""
    capacity = _CAPACITY.search(case.text)
    begin = case.known.settings.get("_first_avail_gib")
    return bool(
        capacity and begin is not None and begin < 0.5 * float(capacity[1]) and case.stage in ("", "load", "kv")
    )


def _oom_summary(case: Case) -> str:
    tried = _TRIED.search(case.text)
    wanted = f" (wanted {tried[1]} more)" if tried else ""
    what = {
        "gpu_occupied": "GPU memory is held by another process",
        "memory_cuda_graph": "GPU out of memory while CUDA graphs were captured",
        "memory_runtime": "GPU out of memory while serving",
        "memory_kv_pool": "GPU out of memory: the weights leave no room for the KV cache",
    }.get(_oom_category(case), "GPU out of memory")
    if _is_unsure(case):
        what = "GPU out of memory"
    elif _oom_category(case) == "memory_kv_pool" and (case.stage == "load" or is_of_diffusion(case)):
        what = "GPU out of memory: the weights do not fit"
    return what + wanted


def _oom_cause(case: Case) -> str:
    category = _oom_category(case)
    if category == "gpu_occupied":
        held = ", ".join(f"process {pid} {size:.1f} GiB" for pid, size in _others(case) if size > 0.5)
        return f"Before this server had loaded, others held the memory: {held or 'little was free at the begin'}."
    if _is_unsure(case):
        return "The GPU's memory ran out; the log does not show what the server was doing then."
    if category == "memory_cuda_graph":
        return "Weights and KV cache took the memory that capturing graphs needs beside them."
    if category == "memory_runtime":
        return "Weights, KV cache and graphs leave too little for the activations of a batch."
    if is_of_diffusion(case):
        return "The model's parts are larger together than what the GPU has left for them."
    return "The weights of one rank are larger than what a GPU has left for them and the KV cache."


def _lower(case: Case) -> str:
    """A fraction some steps below the present one."""
    told = case.known.get("mem_fraction_static")
    try:
        now = float(told)
    except (TypeError, ValueError):
        return f"{case.known.flag('mem')} 0.8 (lower than now)"
    return f"{case.known.flag('mem')} {max(0.05, round(now - 0.05, 2)):g} (now {now:g})"


def _oom_fix(case: Case) -> str:
    known, category = case.known, _oom_category(case)
    if category == "gpu_occupied":
        pids = " ".join(pid for pid, size in _others(case) if size > 0.5)
        return (
            f"nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv; end what is left over"
            f"{': kill ' + pids if pids else ' by its pid'}."
        )
    if _is_unsure(case):
        return (
            f"{_lower(case)} where it had loaded, and fewer tokens at once ({known.flag('prefill')} 2048); "
            f"{known.flag('tp')} higher or a quantized checkpoint where the weights do not fit."
        )
    if category == "memory_cuda_graph":
        return f"{_lower(case)}; or fewer graphs: {known.flag('graph_bs')} 16; or none: {known.flag('no_graph')}."
    if category == "memory_runtime":
        return f"{_lower(case)}; {known.flag('prefill')} 2048; {known.flag('running')} lower."
    if is_of_diffusion(case):
        return (
            "--dit-cpu-offload or --dit-layerwise-offload keep parts in the host's memory; or a quantized checkpoint."
        )
    return f"More GPUs: {_more_gpus(case)}; or a quantized checkpoint (FP8, INT4)."


def is_of_diffusion(case: Case) -> bool:
    """Whether it is SGLang's server of diffusion models, which has no KV cache and flags of its own."""
    return re.search(r"fsdp_load\.py|multimodal_gen/|/diffusion/", case.frames) is not None


def _more_gpus(case: Case) -> str:
    """Twice the size that the log or the command tells."""
    tp, flag = str(case.known.get("tp_size") or ""), case.known.flag("tp")
    return f"{flag} {int(tp) * 2} (now {tp})" if tp.isdigit() and int(tp) else f"a higher {flag}"


def _half(count: str) -> str:
    return f"{int(count) // 2} (now {count})" if count else "lower"


def _least(case: Case) -> str:
    """The least viable fraction that the message names, rounded up to what one would type."""
    try:
        least = float(case.word("least"))
    except ValueError:
        return "More GPUs or a quantized checkpoint; or raise {mem} towards 0.95".format(mem=case.known.flag("mem"))
    step = min(0.99, math.ceil(least * 100 + 0.5) / 100)
    if least >= 0.97:
        return (
            f"{case.known.flag('tp')} higher or a quantized checkpoint: no fraction is enough ({least:g} would be "
            f"needed)."
        )
    now = case.word("now") or case.known.get("mem_fraction_static")
    return f"{case.known.flag('mem')} {step:g} or more (now {now}; the least that works is {least:g})."


def _raise_fix(case: Case) -> str:
    told = case.known.get("mem_fraction_static")
    try:
        now = float(told)
    except (TypeError, ValueError):
        now = 0.0
    flag = case.known.flag("mem")
    higher = (
        f"{flag} {min(0.97, round(now + 0.05, 2)):g} (now {now:g})" if 0 < now < 0.95 else f"{flag} higher, up to 0.95"
    )
    return f"{higher}; if that is not enough {_more_gpus(case)} or a quantized checkpoint."


def _kv_fix(case: Case) -> str:
    fits = case.word("fits")
    context = f"{case.known.flag('context')} {fits or '32768'}"
    return f"{context}{' or less' if fits else ''}; or {_raise_fix(case)}"


def _is_own(case: Case) -> bool:
    """Whether the exception began here, and is not of a rank that has lost the others."""
    return (
        re.search(
            r"[Cc]onnection|[Bb]roken ?[Pp]ipe|EOFError|NCCL|SystemExit|KeyboardInterrupt|[Tt]imed out", case.text
        )
        is None
    )


_IN_PYTHON = re.compile(
    r"(?:TypeError|AttributeError|ImportError|ModuleNotFoundError|NameError|KeyError|FileNotFoundError)\b"
)


_OF_TYPE = re.compile(r"only supports? [\w ,/]*(?:data ?)?type")


def _capture_cause(case: Case) -> str:
    """With the exception itself where it is told: SGLang's advice about graphs only follows it."""
    told = next((text for _, text in case.incident.causes if not _ADVICE.search(text)), "")
    what = f": {told[:200]}" if told else "; the exception above the advice says which."
    return f"A kernel could not be recorded into a CUDA graph{what}"


_ADVICE = re.compile(r"[Cc]apture \w+ graph failed")


def _capture_fix(case: Case) -> str:
    """Without graphs the same call would fail at the first batch where it is Python that it fails of."""
    if _OF_TYPE.search(case.text):
        return (
            "The first batch would fail of the same without graphs: --kv-cache-dtype auto, or another "
            "--attention-backend that takes this type."
        )
    if _IN_PYTHON.search(case.text):
        return (
            "The first batch would fail of the same without graphs: install the versions that the engine's release "
            "pins in a fresh environment (pip check), or leave the option out whose code the traceback names."
        )
    return f"{case.known.flag('no_graph')} starts without graphs (slower); another --attention-backend often captures."


_FREE_AT_START = re.compile(
    r"Free\s+memory\s+on\s+device(?:\s+\S+)?\s+\((?P<free>[\d.]+)/(?P<all>[\d.]+)\s+GiB\)\s+on\s+startup\s+is\s+less"
)
_OF_SHARE = "less than desired GPU memory utilization"
_LEAST_SHARE = 0.1
"""No weights of use fit into less."""


def _held_cause(case: Case) -> str:
    if found := _FREE_AT_START.search(case.text):
        return (
            f"At the start only {found['free']} of {found['all']} GiB were free, less than the share that was "
            "asked for: something else is on the GPU, or a desktop, or the share is too large."
        )
    if _OF_SHARE in case.text:
        return "At the start less was free than the share that was asked for: something else is on the GPU."
    return (
        "The GPUs do not have the same free memory at the start: something else, often a leftover of an earlier "
        "server, is on one."
    )


def _held_fix(case: Case) -> str:
    look = "nvidia-smi --query-compute-apps=pid,used_memory,name --format=csv; end what is left over by its pid"
    found = _FREE_AT_START.search(case.text)
    if found and float(found["all"]):
        fits = math.floor(100 * float(found["free"]) / float(found["all"]) - 0.5) / 100
        if fits >= _LEAST_SHARE:
            return f"{look}; or --gpu-memory-utilization {fits:g}, which fits into what is free."
    if _OF_SHARE in case.text:
        return f"{look}."
    return f"{look}; GPUs of different sizes: SGLANG_ENABLE_TP_MEMORY_INBALANCE_CHECK=0."


_KV_SUMMARY = "The weights leave no room on the GPU for the KV cache"
_KV_CAUSE = "After the weights, less than nothing is left of the memory fraction for the KV cache."

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
        _KV_SUMMARY,
        _KV_CAUSE,
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
        _kv_fix,
    ),
    rule(
        "gpu_occupied",
        r"memory capacity is unbalanced|[Ss]ome GPUs may be occupied"
        r"|on startup is less than desired|less than desired GPU memory utilization|initial free memory"
        r"|Error in memory profiling",
        "Another process holds memory of a GPU",
        _held_cause,
        _held_fix,
    ),
    rule(
        "memory_cuda_graph",
        r"Failed to CUDA (?:calloc|malloc|host alloc)[^\n]*\d+ bytes|ncclUnhandledCudaError.*out of memory"
        r"|NCCL WARN (?:Cuda failure .*out of memory|Failed to CUDA)",
        "NCCL found no GPU memory left for its buffers",
        "The static memory takes so much of the GPU that NCCL's channels, which graphs need, have no room.",
        lambda case: f"{_lower(case)}.",
    ),
    rule(
        "memory_cuda_graph",
        r"out of memory occurred when warming up (?P<what>\w+)(?: with (?P<count>\d+) dummy requests)?",
        "GPU out of memory while the {what} was warmed up",
        "Weights, KV cache and graphs are in place; the last step of the start, a batch of as many sequences as may "
        "run at once, found no room.",
        lambda case: f"{case.known.flag('running')} {_half(case.word('count'))}; or {_lower(case)}.",
    ),
    rule(
        _oom_category,
        _OOM,
        _oom_summary,
        _oom_cause,
        _oom_fix,
        needs=lambda case: (
            not re.search(
                r"reduce|try |avoid|to prevent|may cause|hint", case.found.string[: case.found.start()].lower()[-60:]
            )
        ),
    ),
    rule(
        "scheduler_exception",
        r"Failed to allocate memory for (?P<what>\w+) with size \d+[^\n]{0,60}AlignedAllocator",
        "flashinfer's workspace is too small for this batch ({what})",
        "flashinfer keeps its intermediate results in a buffer of fixed size, and a batch of this shape needs more.",
        "SGLANG_FLASHINFER_WORKSPACE_SIZE=1073741824 (bytes, 384 MiB by default) before the command; or "
        "--chunked-prefill-size 2048; or --attention-backend triton.",
    ),
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

CAPTURE: tuple[Rule, ...] = (
    rule(
        "cuda_graph_capture",
        r"[Cc]apture (?:cuda|CUDA|npu|cpu) graph failed|cudaErrorStreamCapture\w*|operation (?:not permitted"
        r"|would make the legacy stream).*captur"
        r"|during (?:cuda |CUDA )?graph capture|capture_begin|operation failed due to a previous error during capture"
        r"|custom_all_reduce\.cuh:\d+ 'invalid argument'|stream is capturing|capturing stream has unjoined work"
        r"|Fail when using backend: \S+ for prefill runner|CUDA graph capture failed|Failed to capture",
        "Capturing CUDA graphs failed",
        _capture_cause,
        _capture_fix,
        needs=lambda case: re.search(r"[Cc]onnection (?:closed|reset)|[Bb]roken pipe", case.text) is None,
    ),
    rule(
        "cuda_graph_capture",
        r"\S",
        lambda case: f"Capturing CUDA graphs failed: {case.incident.cause[1][:160]}",
        lambda case: (
            f"An exception came out of the code that records a batch as a CUDA graph: {case.incident.cause[1][:200]}"
        ),
        _capture_fix,
        frames=r"in capture_one_batch_size|in capture_model|in capture\b"
        r"|in _capture_cudagraphs?\b|torch/cuda/graphs\.py"
        r"|in _?capture_graphs?\b",
        on="block",
        needs=lambda case: bool(case.incident.causes) and _is_own(case),
        standing="follows",
    ),
)
