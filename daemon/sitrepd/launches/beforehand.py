"""What is known of a start before its log says anything: whether kernels were compiled before, how much is to read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf", "*.pt")


def kernels_are_cold(env: Mapping[str, str]) -> bool | None:
    """True where the caches of compiled kernels hold nothing; None where they do: whether the right ones is unknown."""
    home = env.get("HOME")
    if not home:
        return None
    base = Path(env.get("XDG_CACHE_HOME") or f"{home}/.cache")
    folders = [
        Path(env.get("TRITON_CACHE_DIR") or f"{home}/.triton/cache"),
        Path(env.get("FLASHINFER_WORKSPACE_BASE") or home) / ".cache/flashinfer",
        Path(env.get("VLLM_CACHE_ROOT") or base / "vllm") / "torch_compile_cache",
        base / "tvm-ffi",
    ]
    return None if any(_holds(folder) for folder in folders) else True


def _holds(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is not None
    except PermissionError:
        return True
    except OSError:
        return False


def weight_bytes(model_path: str | None, cwd: str | None) -> int | None:
    """The size of the weight files in a model's folder; None of a name on a hub."""
    folder = Path(cwd or "/", model_path or "")
    if not model_path or not folder.is_dir():
        return None
    for pattern in _WEIGHTS:
        try:
            size = sum(file.stat().st_size for file in folder.glob(pattern))
        except OSError:
            return None
        if size:
            return size
    return None
