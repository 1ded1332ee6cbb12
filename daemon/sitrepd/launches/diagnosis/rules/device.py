"""GPUs, their driver and their faults."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_RESET = "dmesg -T | grep -iE 'xid|nvrm|ecc'; nvidia-smi -q -d ECC,PAGE_RETIREMENT; then reset the GPU or reboot"

OLD_SYMBOLS = (
    r"cu(?:Init|DriverGetVersion|ModuleLoad\w*|ModuleUnload|ModuleGet(?:Function|Global)|LaunchKernel|FuncGetAttribute"
    r"|FuncSetCacheConfig|DeviceGet(?:Attribute|Count|Name)?|CtxGetCurrent|GetErrorString|Mem(?:Alloc|Free|cpy\w*))"
    r"(?:_v2)?\b"
)
"""Every driver in use has these: a library that misses one was linked without the driver's library."""

_HARDWARE_XIDS = r"48|56|57|58|61|62|63|64|74|79|92|94|95|110|119|120|121|123|140|14[3-9]|15\d"


def _xid(case: Case) -> str:
    return case.word("xid") or case.word("before")


FAULTS: tuple[Rule, ...] = (
    rule(
        "hardware_fault",
        r"NVRM: .*(?:fallen off the bus|GPU has fallen"
        r"|rpcSendMessage failed with status 0x0000000f\b)"
        r"|GPU (?:is lost|has fallen off the bus)|GPU-lost"
        r"|Unable to determine the device handle for (?:GPU|gpu)",
        "A GPU has fallen off the bus",
        "The driver cannot reach a GPU any more: hardware, power or PCIe link.",
        f"{_RESET}; if it comes again: reseat the card, check its power, pcie_aspm=off on the kernel's command line.",
        weight="fatal",
    ),
    rule(
        "hardware_fault",
        rf"NVRM: Xid \(PCI:(?P<bus>[\w:.]+)\): (?:(?P<xid>{_HARDWARE_XIDS})\b"
        rf"|45\b[^\n]*\bcaused by previous Xid (?P<before>{_HARDWARE_XIDS})\b)",
        lambda case: f"The driver reported Xid {_xid(case)} on GPU {case.word('bus')}",
        lambda case: f"Xid {_xid(case)} is a fault of the GPU or of its link, not of the program.",
        f"{_RESET}.",
        weight="fatal",
    ),
    rule(
        "hardware_fault",
        r"[Uu]ncorrectable (?P<what>ECC|NVLink) error|cudaErrorECCUncorrectable|CUDA_ERROR_ECC_UNCORRECTABLE"
        r"|hardware stack error|Surprise Link Down|cudaErrorNvlinkUncorrectable|nvlink uncorrectable",
        "The GPU hardware reported an uncorrectable error",
        "ECC, NVLink or PCIe failed under the running kernel; the program only saw the result.",
        f"{_RESET}; leave the card out with CUDA_VISIBLE_DEVICES until it is replaced.",
        weight="fatal",
    ),
)


def _ordinal(case: Case) -> str:
    if case.word("ranks"):
        return f"{case.word('ranks')} ranks are to run on this node, and only {case.word('seen')} GPUs are visible."
    tp = case.known.get("tp_size")
    asked = f"{case.known.flag('tp')} {tp}" if tp else "The parallel size asked for"
    return f"{asked} wants more GPUs than this process can see."


def _serialize(case: Case) -> str:
    """ROCm has variables of its own for it."""
    is_amd = re.search(r"Memory access fault by GPU|HSA_STATUS|HSAIL|\bHIP\b|\bhip[A-Z]", case.text) is not None
    one_by_one = "AMD_SERIALIZE_KERNEL=3" if is_amd else "CUDA_LAUNCH_BLOCKING=1"
    reduces = "custom_all_reduce" in case.text + case.frames and not case.known.is_vllm
    other = "--disable-custom-all-reduce" if reduces else "another --attention-backend"
    return (
        f"Start once with {one_by_one} to see the kernel; then try {other}, {case.known.flag('no_graph')}, or a newer "
        "release."
    )


RULES: tuple[Rule, ...] = (
    rule(
        "gpu_count",
        r"invalid device ordinal|number of GPUs \(\d+\) is less than|cudaErrorInvalidDevice\b"
        r"|device >= 0 && device < num_gpus",
        "More ranks than GPUs: a rank asked for a GPU that does not exist",
        _ordinal,
        "nvidia-smi -L; then {flag_tp} no greater than the number of GPUs listed (and within CUDA_VISIBLE_DEVICES).",
    ),
    rule(
        "gpu_count",
        r"(?:number of required GPUs exceeds the total number of available GPUs"
        r"|[Ww]orld size \((?P<ranks2>\d+)\) is larger than the number of available GPUs \((?P<seen2>\d+)\)"
        r"|[Tt]ensor parallel size \((?P<ranks3>\d+)\) cannot be larger than the number of available GPUs \("
        r"(?P<seen3>\d+)\)"
        r"|local_world_size \((?P<ranks>\d+)\) must be less than or equal to the number of visible devices "
        r"\((?P<seen>\d+)\)"
        r"|Duplicate GPU detected|The required (?:number of )?GPUs?.*exceed|Not enough GPUs|DP adjusted local rank"
        r"|placement group.*(?:GPU.*cannot be|infeasible)|tp_size .{0,40}(?:exceeds|greater than"
        r"|larger than).{0,40}GPU)",
        "More ranks than GPUs",
        _ordinal,
        "nvidia-smi -L; then {flag_tp} no greater than the number of GPUs listed (and within CUDA_VISIBLE_DEVICES).",
    ),
    rule(
        "driver",
        rf"undefined symbol: (?P<symbol>(?!{OLD_SYMBOLS})cu[A-Z]\w+|nvml\w+)",
        "The NVIDIA driver is too old: it lacks {symbol}",
        "A library calls {symbol}, which the installed driver does not have.",
        "nvidia-smi (see Driver Version); install a newer driver, or the build of the engine for this CUDA version.",
    ),
    rule(
        "driver",
        r"Found no NVIDIA driver|libcuda\.so(?:\.1)?: cannot open|libcuda\.so(?:\.1)? (?:cannot be|not) found"
        r"|no CUDA-capable device"
        r"|cudaErrorNoDevice|No (?:CUDA|HIP|XPU|NPU) (?:GPUs|devices) are available|NPU function error: aclInit"
        r"|NVIDIA driver is not (?:loaded|installed)"
        r"|NVML_ERROR_DRIVER_NOT_LOADED"
        r"|NVML Shared Library Not Found|NVMLError_(?:LibraryNotFound|DriverNotLoaded)|0 active drivers"
        r"|No CUDA runtime is found|could not select device driver|nvidia-container-cli: "
        r"|Failed to initialize NVML: (?:Unknown|Not Found|Driver Not)|couldn't communicate with the NVIDIA driver"
        r"|No accelerator \(CUDA|Failed to infer device type",
        "No usable NVIDIA driver or GPU is visible to the process",
        "The program found no NVIDIA driver or no GPU: none installed, not passed into the container, or hidden.",
        "nvidia-smi must list the GPUs where the server runs (docker: --gpus all; also check CUDA_VISIBLE_DEVICES); "
        "on a machine without a GPU: --device cpu, without kernels that need one.",
    ),
    rule(
        "driver",
        r"Error 803:|unsupported display driver|cudaErrorSystemDriverMismatch",
        "The CUDA library in use does not belong to the kernel's NVIDIA driver",
        "The process loads a libcuda of another version than the driver's own: a cuda-compat package in the image, "
        "or a copy that LD_LIBRARY_PATH finds first.",
        "ldconfig -p | grep libcuda and echo $LD_LIBRARY_PATH show which is loaded; leave /usr/local/cuda/compat out "
        "of both (or remove cuda-compat-*), so that the driver's own libcuda.so.1 is found.",
    ),
    rule(
        "driver",
        r"driver version is insufficient|cudaErrorInsufficientDriver|NVIDIA driver on your system is too old"
        r"|forward compatibility was attempted|cudaErrorCompatNotSupportedOnDevice|unsupported display driver"
        r"|Error 80[34]:|cudaErrorSystemDriverMismatch|PTX was compiled with an unsupported toolchain"
        r"|cudaErrorUnsupportedPtxVersion"
        r"|unsatisfied condition: cuda>=|requirement error: .*cuda",
        "The NVIDIA driver is too old for this CUDA build",
        "The engine was built for a CUDA version that the installed driver does not support.",
        "nvidia-smi (see Driver Version); install a newer driver, or wheels and images built for an older CUDA.",
    ),
    rule(
        "driver",
        r"[Dd]river/library version mismatch|NVML_ERROR_LIB_RM_VERSION_MISMATCH|NVMLError_LibRmVersionMismatch"
        r"|NVML/RM version mismatch",
        "The driver's library and its kernel module have different versions",
        "The driver was upgraded on disk while the old kernel module is still loaded.",
        "Reboot, or unload and load the module: sudo rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && sudo "
        "modprobe nvidia.",
    ),
    rule(
        "driver",
        r"Error 802: system not yet initialized|cudaErrorSystemNotReady|CUDA initialization: (?!.*out of memory)"
        r"|cudaErrorInitializationError|CUDA_ERROR_NOT_INITIALIZED|cuInit.*(?:fail|error)|CUDA unknown error"
        r"|CUDA error: initialization error|CUDA driver (?:initialization failed|error: unknown)"
        r"|Failed to initialize NVML",
        "CUDA could not be initialised",
        "The driver answered, but CUDA could not be set up: often the Fabric Manager of an NVSwitch machine, a driver "
        "upgrade without a reboot, or a container without the device files.",
        "nvidia-smi; sudo systemctl restart nvidia-fabricmanager (NVSwitch machines); restart the container or reboot.",
        needs=lambda case: "UserWarning" not in case.found.string,
    ),
    rule(
        "cuda_illegal_memory",
        r"illegal memory access|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS|Memory access fault by GPU"
        r"|HSA_STATUS_ERROR_(?:EXCEPTION|MEMORY_\w+)|HSAIL operation resulted in a hardware exception"
        r"|misaligned address|illegal instruction was encountered|tensor map: 700|\b(?:error code|CUDA error):? 700\b"
        r"|cudaErrorMisalignedAddress|Warp Illegal Address|invalid address space",
        "A GPU kernel accessed memory that it must not",
        "An illegal memory access in a kernel; CUDA reports it late, so the Python line named may be innocent.",
        _serialize,
        weight="fatal",
    ),
    rule(
        "cuda_illegal_memory",
        r"device-side assert triggered|cudaErrorAssert\b|CUDA_ERROR_ASSERT"
        r"|: block: \[\d+,\d+,\d+\], thread: \[.*Assertion",
        "A GPU kernel stopped at a device-side assertion",
        "A kernel stopped at an assertion, often an index out of range or NaN; the Python line named may be innocent.",
        "Start once with CUDA_LAUNCH_BLOCKING=1 to see the kernel; check that tokenizer and model belong together; "
        "try another --attention-backend or {flag_no_graph}.",
        weight="fatal",
    ),
    rule(
        "cuda_illegal_memory",
        r"unspecified launch failure|cudaErrorLaunchFailure|CUDA_ERROR_LAUNCH_FAILED",
        "A GPU kernel failed while it ran (unspecified launch failure)",
        "A kernel broke off, most often at an address that is not its own; the Python line named may be innocent.",
        "Start once with CUDA_LAUNCH_BLOCKING=1 to see the kernel; then try another --attention-backend, "
        "{flag_no_graph}, or a newer release; dmesg -T | grep -i xid shows whether the driver reported a fault.",
        weight="fatal",
    ),
)
