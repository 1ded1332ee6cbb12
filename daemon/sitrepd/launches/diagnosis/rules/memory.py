"""GPU memory that ran out, told by what the server was doing then."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules import occupied
from sitrepd.launches.diagnosis.rules._make import rule
from sitrepd.launches.diagnosis.rules._sizes import half, lower_fraction, more_gpus

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
_TRIED = re.compile(r"Tried to allocate ([\d.]+ [KMG]iB)")
_OF_STAGE = {
    "load": "memory_kv_pool",
    "kv": "memory_kv_pool",
    "capture": "memory_cuda_graph",
    "serve": "memory_runtime",
}
_SUMMARIES = {
    "gpu_occupied": "GPU memory is held by another process",
    "memory_cuda_graph": "GPU out of memory while CUDA graphs were captured",
    "memory_runtime": "GPU out of memory while serving",
    "memory_kv_pool": "GPU out of memory: the weights leave no room for the KV cache",
}


def _category(case: Case) -> str:
    if occupied.is_occupied(case):
        return "gpu_occupied"
    return _OF_STAGE.get(case.stage, "memory_kv_pool" if _is_early(case) else "memory_runtime")


def _is_unsure(case: Case) -> bool:
    return not case.is_placed and _category(case) != "gpu_occupied"


def _is_early(case: Case) -> bool:
    """Whether no step of the start was over that takes much memory."""
    return (case.incident.phase == "starting" and bool(case.known.get("model_path"))) or re.search(
        r"[Ss]hard[\w ]{0,30}(?:[Ss]tart|load)", case.text
    ) is not None


def _summary(case: Case) -> str:
    tried = _TRIED.search(case.text)
    return _what(case) + (f" (wanted {tried[1]} more)" if tried else "")


def _what(case: Case) -> str:
    category = _category(case)
    if _is_unsure(case):
        return "GPU out of memory"
    if category == "memory_kv_pool" and (case.stage == "load" or _is_of_diffusion(case)):
        return "GPU out of memory: the weights do not fit"
    return _SUMMARIES[category]


def _cause(case: Case) -> str:
    category = _category(case)
    if category == "gpu_occupied":
        return occupied.cause(case)
    if _is_unsure(case):
        return "The GPU's memory ran out; the log does not show what the server was doing then."
    if category == "memory_cuda_graph":
        return "Weights and KV cache took the memory that capturing graphs needs beside them."
    if category == "memory_runtime":
        return "Weights, KV cache and graphs leave too little for the activations of a batch."
    if _is_of_diffusion(case):
        return "The model's parts are larger together than what the GPU has left for them."
    return "The weights of one rank are larger than what a GPU has left for them and the KV cache."


def _fix(case: Case) -> str:
    known, category = case.known, _category(case)
    if category == "gpu_occupied":
        return occupied.fix(case)
    if _is_unsure(case):
        return (
            f"{lower_fraction(case)} where it had loaded, and fewer tokens at once ({known.flag('prefill')} 2048); "
            f"{known.flag('tp')} higher or a quantized checkpoint where the weights do not fit."
        )
    if category == "memory_cuda_graph":
        return (
            f"{lower_fraction(case)}; or fewer graphs: {known.flag('graph_bs')} 16; or none: {known.flag('no_graph')}."
        )
    if category == "memory_runtime":
        return f"{lower_fraction(case)}; {known.flag('prefill')} 2048; {known.flag('running')} lower."
    if _is_of_diffusion(case):
        return (
            "--dit-cpu-offload or --dit-layerwise-offload keep parts in the host's memory; or a quantized checkpoint."
        )
    return f"More GPUs: {more_gpus(case)}; or a quantized checkpoint (FP8, INT4)."


def _is_of_diffusion(case: Case) -> bool:
    """Whether it is SGLang's server of diffusion models, which has no KV cache and flags of its own."""
    return re.search(r"fsdp_load\.py|multimodal_gen/|/diffusion/", case.frames) is not None


RULES: tuple[Rule, ...] = (
    rule(
        "memory_cuda_graph",
        r"Failed to CUDA (?:calloc|malloc|host alloc)[^\n]*\d+ bytes|ncclUnhandledCudaError.*out of memory"
        r"|NCCL WARN (?:Cuda failure .*out of memory|Failed to CUDA)",
        "NCCL found no GPU memory left for its buffers",
        "The static memory takes so much of the GPU that NCCL's channels, which graphs need, have no room.",
        lambda case: f"{lower_fraction(case)}.",
    ),
    rule(
        "memory_cuda_graph",
        r"out of memory occurred when warming up (?P<what>\w+)(?: with (?P<count>\d+) dummy requests)?",
        "GPU out of memory while the {what} was warmed up",
        "Weights, KV cache and graphs are in place; the last step of the start, a batch of as many sequences as may "
        "run at once, found no room.",
        lambda case: f"{case.known.flag('running')} {half(case.word('count'))}; or {lower_fraction(case)}.",
    ),
    rule(
        _category,
        _OOM,
        _summary,
        _cause,
        _fix,
        needs=lambda case: (
            not re.search(
                r"reduce|try |avoid|to prevent|may cause|hint", case.found.string[: case.found.start()].lower()[-60:]
            )
        ),
    ),
)
