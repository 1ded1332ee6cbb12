"""Kernels compiled at start, and binaries built for something else."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule
from sitrepd.launches.diagnosis.rules.device import OLD_SYMBOLS

_CACHES = "rm -rf ~/.cache/flashinfer ~/.triton/cache ~/.cache/torch_extensions ~/.cache/tvm-ffi"


def _library(case: Case) -> str:
    """vLLM keeps its operators in a namespace of no name of its own."""
    name = case.word("library").partition(".")[0]
    return "vllm" if name.startswith("_") else name.replace("_", "-")


RULES: tuple[Rule, ...] = (
    rule(
        "jit_compile",
        r"nvcc fatal *: *Unsupported gpu architecture '(?P<arch>\w+)'"
        r"|Value '(?P<arch2>sm_\w+)' is not defined for option 'gpu-name'"
        r"|ptxas fatal[^\n]*(?P<arch3>sm_\w+)",
        "The CUDA compiler is too old for this GPU",
        "Kernels are compiled at start, and the compiler found does not know the GPU's architecture {arch}.",
        f"nvcc --version; install CUDA 12.8 or later and export CUDA_HOME, TRITON_PTXAS_PATH=$CUDA_HOME/bin/ptxas; "
        f"{_CACHES}; "
        "or --attention-backend triton --sampling-backend pytorch.",
    ),
    rule(
        "jit_compile",
        r"(?:Could not|cannot|Unable to|Failed to) (?:find|locate) (?:nvcc|CUDA_HOME|CUDA installation|ninja"
        r"|C compiler|ptxas|c\+\+|g\+\+|cl\b)"
        r"|NVCC (?:compiler )?not found|CUDA_HOME (?:environment variable )?is not set"
        r"|nvcc: (?:command )?not found|ninja: (?:command )?not found"
        r"|No such file or directory: '[^']*(?:nvcc|ninja|ptxas|g\+\+|gcc|/cc)'|Ninja is required"
        r"|CUDA toolkit.*not found"
        r"|Could not find CUDA|cuda_home='[^']*' doesn't exist|nvcc .*not found",
        "The compiler for kernels is missing",
        "Kernels are compiled at start, and the machine has no nvcc, ninja or C compiler where they are looked for.",
        "Install a CUDA toolkit of torch's version and build-essential, pip install ninja, export "
        "CUDA_HOME=/usr/local/cuda "
        "PATH=$CUDA_HOME/bin:$PATH (containers: a devel image); or --attention-backend triton --sampling-backend "
        "pytorch.",
    ),
    rule(
        "jit_compile",
        r"Command '\['ninja'.*returned non-zero|[Nn]inja build failed|ninja: (?:build stopped|error|fatal)|nvcc fatal"
        r"|ptxas (?:fatal|error)"
        r"|Command '[^']*(?:ptxas|nvcc|gcc|g\+\+|cc1plus|\bcc\b)|Command '\['[^']*(?:ptxas|nvcc|gcc|g\+\+|/cc)'"
        r"|Error building extension"
        r"|NVRTC (?:error|compil)|nvrtc.*(?:error|fail)|NVRTC_ERROR|JIT compil\w+ (?:failed|error)"
        r"|[Ff]ailed to (?:JIT )?compile (?:the )?(?:kernel|cubin)"
        r"|fatal error: \S+\.(?:h|cuh|hpp|hxx): No such file|triton\.compiler\.errors\.|CompilationError"
        r"|Internal Triton PTX codegen error"
        r"|torch\._inductor\.exc\.\w+|BackendCompilerFailed|InductorError|CppCompileError|LLVM ERROR"
        r"|PassManager::run failed"
        r"|collect2: error|ld returned 1 exit status|undefined reference to|/usr/bin/ld: cannot find"
        r"|DeepGEMM.*(?:compil|NVCC).*(?:fail|error)"
        r"|cc1plus: |error: identifier .* is undefined|tvm.*(?:compile|nvcc).*(?:fail|error)"
        r"|CUDA compiler and CUDA toolkit headers are incompatible|nvcc [^\n]*failed with exit status"
        r"|Compilation failed for (?:the )?kernel|unsupported (?:GNU|clang) version! ",
        lambda case: f"Compiling a kernel {'' if case.stage == 'serve' else 'at start '}failed",
        "nvcc, ptxas, Triton or the JIT of flashinfer failed; the compiler's own message stands above the traceback.",
        f"Compare nvcc --version with python -c 'import torch; print(torch.version.cuda)'; {_CACHES} after an upgrade; "
        "--attention-backend triton --sampling-backend pytorch avoids flashinfer's JIT; leave --enable-torch-compile "
        "out.",
        needs=lambda case: re.search(r"Errno (?:28|122)\b|Disk quota exceeded", case.text) is None,
    ),
    rule(
        "abi_mismatch",
        r"'_OpNamespace' '(?P<library>\w+)' object has no attribute '(?P<name>\w+)'"
        r"|module '(?P<library2>(?:vllm\._C|vllm\._custom_ops|sgl_kernel|flashinfer|deep_gemm)[\w.]*)'"
        r" has no attribute '\W*(?P<name2>\w+)",
        lambda case: f"{_library(case)} lacks the operator {case.word('name')}",
        "The engine calls an operator that the installed kernel library was not built with: the two are of different "
        "releases, or the build leaves it out for this kind of GPU.",
        lambda case: (
            f"pip install --force-reinstall the version of {_library(case)} that the engine's release pins (pip "
            "check); graphs or not makes no difference."
        ),
    ),
    rule(
        "abi_mismatch",
        r"undefined symbol: (?P<symbol>\w+)|version `(?P<version>[\w.]+)' not found"
        r"|Torch not compiled with CUDA enabled"
        r"|operator torchvision::nms does not exist|ABI mismatch|compiled against (?:a different|another)"
        r"|numpy\.dtype size changed"
        r"|_ARRAY_API not found|compiled using NumPy 1|was compiled with .{0,60}(?:but|different)"
        r"|PyTorch and torchvision .{0,60}(?:different|incompatible)"
        r"|[Dd]etected that PyTorch and [Tt]orch\w+ were compiled with different"
        r"|symbol not found in flat namespace|CXXABI_"
        r"|GLIBCXX_"
        r"|requires (?:torch|PyTorch)\S* .{0,40}but .{0,20}(?:torch|PyTorch)|mismatch between .{0,40}(?:torch|CUDA)"
        r"|CUDA version mismatch|mismatched CUDA",
        "A compiled library does not fit the installed torch or CUDA",
        "A binary was built for another version of torch, CUDA or the C++ library than the one installed.",
        "pip install --force-reinstall the pair that the release pins (pip install "
        "'sglang==VERSION'), in a "
        "fresh environment; torch, torchvision, sglang-kernel (sgl-kernel) and flashinfer must come from the same "
        "release.",
        needs=lambda case: re.match(rf"(?!{OLD_SYMBOLS})cu[A-Z]|nvml", case.word("symbol")) is None,
    ),
)
