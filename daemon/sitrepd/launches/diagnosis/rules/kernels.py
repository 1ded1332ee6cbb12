"""Kernels that do not exist for a GPU, or ask more room than it or their workspace has."""

from __future__ import annotations

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule


def _triton(case: Case) -> str:
    need, have = case.word("need"), case.word("have")
    if need and have:
        return f"A Triton kernel needs {need} bytes of shared memory, and this GPU has {have}."
    return "A Triton kernel is tuned for a GPU with more shared memory per block than this one has."


def _triton_fix(case: Case) -> str:
    """Which switch helps depends on the kernel, and the code that it came through names it."""
    if "batch_invariant" in case.frames:
        return "Leave --enable-deterministic-inference out on this GPU."
    if "moe" in case.frames:
        return (
            "--moe-runner-backend flashinfer_cutlass (or marlin), or a newer release with a tuned MoE config for "
            "this GPU."
        )
    if "attention" in case.frames or "extend" in case.frames or "decode" in case.frames:
        return "--attention-backend flashinfer, or a newer release whose Triton blocks fit this GPU."
    return (
        "--attention-backend flashinfer (or another --moe-runner-backend where the traceback names MoE), or a newer "
        "release "
        "whose Triton blocks fit this GPU."
    )


TRITON: tuple[Rule, ...] = (
    rule(
        "triton_resources",
        r"out of resources?: (?P<what>shared memory|tensor memory|registers"
        r"|threads)(?:,? Required: (?P<need>\d+),? Hardware limit: (?P<have>\d+))?"
        r"|OutOfResources",
        "A Triton kernel needs more shared memory than the GPU has",
        _triton,
        _triton_fix,
    ),
)

TYPES: tuple[Rule, ...] = (
    rule(
        "kernel_unsupported",
        r"type (?P<type>fp8\w+|bf16) not supported in this architecture",
        "A kernel needs the number format {type}, which this GPU lacks",
        "Triton cannot compile it for this GPU's architecture.",
        "A checkpoint and a --kv-cache-dtype in a format that this GPU has (Ampere: no FP8 e4m3), or a newer GPU.",
    ),
)

_KERNEL_CODE = r"/(?:sgl_kernel|flashinfer|flash_attn|flash_mla|deep_gemm|aiter|deep_ep)/"
_SHAPE_FIX = (
    "Another --attention-backend (triton takes most shapes); or another {flag_tp}, which changes the heads of a rank."
)

RULES: tuple[Rule, ...] = (
    rule(
        "kernel_unsupported",
        r"bin of socVersion \[(?P<chip>[\w-]+)\] does not support opType \[(?P<op>\w+)\]",
        "The operator {op} has no binary for this chip ({chip})",
        "The package that brings the operator was built for another chip.",
        "Install the build of that package for {chip}, or leave the option out whose code the traceback names.",
    ),
    rule(
        "kernel_unsupported",
        r"^AssertionError: (?P<what>(?:H|[Nn]um_heads|[Hh]ead_(?:dim|size)|[Pp]age_size|[Bb]lock_size) must be [^\n]+)",
        "A kernel does not take the shape of this model: {what}",
        "The kernel is written for certain shapes, and those of the model on one rank are others.",
        _SHAPE_FIX,
        frames=_KERNEL_CODE,
    ),
    rule(
        "kernel_unsupported",
        r"(?P<what>Unsupported (?:max_mma_kv|num_mma_\w+|head_dim|group_size)\b:? ?\d+)",
        "A kernel does not take the shape of this model: {what}",
        "The kernel's tiles for this shape do not fit what the GPU has, so none is left to run.",
        _SHAPE_FIX,
        needs=lambda case: "flashinfer" in case.found.string,
    ),
    rule(
        "kernel_unsupported",
        r"CUDA capability (?P<sm>sm_\d+) is not compatible with the current PyTorch",
        "The installed PyTorch has no code for this GPU ({sm})",
        "The wheel of torch was built without this compute capability.",
        "Install a torch build that lists {sm} (Blackwell: CUDA 12.8 or later), and the engine's release for it.",
        on="line",
        standing="follows",
    ),
    rule(
        "kernel_unsupported",
        r"no kernel image is available|cudaErrorNoKernelImageForDevice|CUDA_ERROR_NO_BINARY_FOR_GPU|NoKernelImage"
        r"|hipErrorNoBinaryForGpu|Unable to find code object for all current devices"
        r"|device kernel image is invalid"
        r"|cudaErrorInvalidDeviceFunction|invalid device function|no binary for gpu",
        "A kernel library has no code for this GPU's architecture",
        "The installed wheel was built without this compute capability.",
        "python -c 'import torch; print(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())'; install the "
        "sglang-kernel (sgl-kernel), flashinfer and torch builds for this GPU (Blackwell: CUDA 12.8 or later).",
    ),
    rule(
        "kernel_unsupported",
        r"Unknown recipe|[Uu]nsupported architecture\b(?!:)|Unsupported (?:SM|sm|CUDA arch|compute capability|GPU arch)"
        r"|[Uu]nsupported hardware"
        r"|(?:requires|only supports?|only supported on|is only available on|supported only on"
        r"|needs)[^\n]{0,60}(?:SM ?\d|sm_?\d|SM *[<>]=?|compute capabilit|Hopper|Blackwell|Ampere)"
        r"|FlashAttention on \w+(?:/\w+)* cards only supports?|FlashAttention(?: v?3)?[^\n]{0,60}(?:only"
        r"|requires)[^\n]{0,40}(?:SM|Hopper|Ampere|compute)"
        r"|(?:SM ?\d+|sm_\d+a?|[Cc]ompute capability \S+) (?:is|are) not (?:yet )?supported|not supported on (?:SM|sm"
        r"|this GPU|GPUs|compute|RTX|Blackwell|Hopper)"
        r"|[Nn]o (?:supported|valid|suitable|available)[^\n]{0,40}(?:kernel|backend)[^\n]{0,60}(?:SM|sm_|device|GPU"
        r"|capability|arch)"
        r"|[Bb]float16 is only supported on GPUs|GPU arch\w* .{0,30}not supported|does not support .{0,30}(?:SM|sm_)\d+"
        r"|architecture sm_?\d+ (?:is )?not supported|Arch conditional MMA|not compiled (?:for|with) (?:sm|SM)"
        r"|get_device_prop.*arch|but your GPU has capability \(\d+, \d+\) \(too (?:old|new)\)"
        r"|attention backend .{0,60}(?:requires|only)[^\n]{0,60}(?:SM|Hopper|GPU)|cannot find .{0,40}kernel for",
        "A kernel does not exist for this GPU's architecture",
        "The backend chosen supports other GPU architectures than this one.",
        "--attention-backend triton or flashinfer instead; for FP8 MoE SGLANG_ENABLE_JIT_DEEPGEMM=0; or a newer "
        "release that "
        "knows this GPU.",
        needs=lambda case: "quantization" not in case.found.string.lower(),
    ),
)

WORKSPACE: tuple[Rule, ...] = (
    rule(
        "scheduler_exception",
        r"Failed to allocate memory for (?P<what>\w+) with size \d+[^\n]{0,60}AlignedAllocator",
        "flashinfer's workspace is too small for this batch ({what})",
        "flashinfer keeps its intermediate results in a buffer of fixed size, and a batch of this shape needs more.",
        "SGLANG_FLASHINFER_WORKSPACE_SIZE=1073741824 (bytes, 384 MiB by default) before the command; or "
        "--chunked-prefill-size 2048; or --attention-backend triton.",
    ),
)
