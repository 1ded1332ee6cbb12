"""llama.cpp's server (and what is built on it), which tells what failed in lines and not in tracebacks."""

from __future__ import annotations

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_NAME = r"(?P<file>[^'\"\n]+?\.gguf)"


def _file(case: Case) -> str:
    return case.word("file") or "MODEL.gguf"


def _when(case: Case) -> str:
    return "memory_runtime" if case.incident.was_ready else "memory_kv_pool"


def _no_room(case: Case) -> str:
    when = "while serving" if case.incident.was_ready else "at the start"
    size = case.word("size")
    return f"GPU out of memory {when}" + (f": a buffer of {size} MiB found no room" if size else "")


RULES: tuple[Rule, ...] = (
    rule(
        "bad_flag",
        r"^error: (?:invalid|unknown) argument: (?P<flag>-\S+)|^error while handling argument \"(?P<flag2>-[^\"]+)\"",
        lambda case: f"The command line was rejected: {case.word('flag')}",
        "This build of llama.cpp does not know the flag, or not with this value.",
        "llama-server --help lists the flags of this build.",
        on="line",
        weight="fatal",
    ),
    rule(
        "weights_corrupt",
        r"is not within the file bounds, model is corrupted or incomplete|gguf_init_from_\w+: (?:invalid magic"
        r"|failed to read|bad GGUF|this GGUF file)|invalid magic characters|wrong number of tensors; expected \d+, got",
        "The GGUF file cannot be read: it is truncated or corrupt",
        "The file is shorter than its header says, or is no GGUF file at all (an LFS pointer, an interrupted copy).",
        "Compare its size with the one that was published, and fetch it anew.",
        on="line",
    ),
    rule(
        "weights_missing",
        rf"(?:failed to load GGUF split from|invalid split (?:file|count|idx)[^\n]*?) '?{_NAME}|illegal split file",
        "A part of the split GGUF file is missing",
        "A model in several files is given by its first one, and the others must lie beside it under their own names.",
        lambda case: f"ls {_file(case).rpartition('/')[0] or '.'}; fetch the parts that are missing.",
        on="line",
    ),
    rule(
        "model_not_found",
        rf"failed to open (?:GGUF file )?'?{_NAME}|error: model (?:is required|file does not exist)",
        lambda case: f"The model file {_file(case)} was not found",
        "No file of that name can be opened where the server was started.",
        lambda case: f"ls -l {_file(case)}; in a container check the mount; -hf USER/REPO fetches it from the hub.",
        on="line",
    ),
    rule(
        "unknown",
        r"unknown model architecture: '(?P<type>[\w.-]+)'|unknown pre-tokenizer type: '(?P<type2>[\w.-]+)'"
        r"|(?:create_tensor|check_tensor_dims): tensor '[^']+' (?:not found|has wrong shape)",
        "This build of llama.cpp does not know the model's architecture",
        lambda case: f"The GGUF file was made for another version: {case.text[:200]}",
        "A newer build of llama.cpp, or a GGUF file that was converted for this one.",
        on="line",
        needs=lambda case: "error" in case.text,
    ),
    rule(
        _when,
        r"allocating (?P<size>[\d.]+) MiB on device \d+: cudaMalloc failed: out of memory"
        r"|unable to allocate (?:CUDA|ROCm|Vulkan|backend)\w* buffer|failed to allocate buffer for (?:the )?kv cache"
        r"|failed to allocate compute (?:pp |tg )?buffers|alloc_tensor_range: failed to allocate"
        r"|ggml_cuda\w*: .*out of memory",
        _no_room,
        "Weights, KV cache and the buffers of a batch do not fit on the GPU together.",
        "Fewer layers on the GPU (-ngl), a shorter context (-c), a smaller KV cache (--cache-type-k q8_0), smaller "
        "batches (-ub), more GPUs (-ts), or a smaller quantization.",
        on="line",
    ),
)
