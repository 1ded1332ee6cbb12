from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from sitrepd.stack.bounded import Ran, run_bounded
from sitrepd.stack.git import GitTree, TreeDiff, git_trees, tree_diffs
from sitrepd.stack.interpreter import Interpreter, find_interpreter

PACKAGES = (
    *("sglang", "vllm", "torch", "torchvision", "torchaudio", "torchao", "triton", "transformers", "tokenizers"),
    *("safetensors", "accelerate", "compressed-tensors", "xgrammar", "llguidance", "outlines", "deep-gemm", "deep-ep"),
    *("apex", "xformers", "numpy", "mooncake-transfer-engine", "nixl", "tilelang", "apache-tvm-ffi", "gguf", "kernels"),
    *("huggingface-hub", "ray", "quack-kernels", "torch-memory-saver", "speculators", "deepspeed"),
)
PREFIXES = ("nvidia-", "cuda-", "flashinfer", "flash-attn", "sgl-", "sglang-", "pytorch-triton", "tensorrt")
# Modules whose place and version count though no distribution tells of them, with the distribution's name.
MODULES = {
    "sglang": "sglang",
    "vllm": "vllm",
    "sgl_kernel": "sgl-kernel",
    "flashinfer": "flashinfer-python",
    "torch": "torch",
    "triton": "triton",
    "transformers": "transformers",
    "deep_gemm": "deep-gemm",
}
# Who provides a module under another name than the usual one.
_OTHER_NAMES = {"sgl-kernel": "sglang-kernel", "deep-gemm": "sgl-deep-gemm", "triton": "pytorch-triton"}
_UNWANTED_ENV = {"LD_PRELOAD", "PYTHONINSPECT", "PYTHONSTARTUP", "PYTHONVERBOSE", "PYTHONPROFILEIMPORTTIME"}
_INSTALLED = re.compile(r"/(site|dist)-packages(/|$)")


@dataclass(frozen=True, slots=True)
class StackReading:
    """What a launch runs on; `note` says in plain sentences what could not be found out."""

    packages: dict[str, str] = field(default_factory=dict)
    driver: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    hip: str | None = None
    python: str | None = None
    executable: str | None = None
    os: str | None = None
    git: tuple[GitTree, ...] = ()
    diffs: tuple[TreeDiff, ...] = ()
    note: str | None = None

    def stack_fields(self) -> dict[str, Any]:
        """Only what a stack line of the portable session file has."""
        trees = [{"path": tree.path, "commit": tree.commit, "dirty": tree.dirty} for tree in self.git]
        return {
            "packages": self.packages,
            "driver": self.driver,
            "cuda": self.cuda,
            "python": self.python,
            "os": self.os,
            "git": trees,
            "diffs": [
                {name: value for name, value in asdict(diff).items() if value is not None} for diff in self.diffs
            ],
        }


def probe_stack(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | Path, *, timeout_s: float = 20.0, root: Path = Path("/")
) -> StackReading:
    """Asks the interpreter that this launch would start, as it would be started; blocks, and never raises."""
    return probe_interpreter(find_interpreter(argv, env, str(cwd)), timeout_s=timeout_s, root=root)


def probe_interpreter(found: Interpreter, *, timeout_s: float = 20.0, root: Path = Path("/")) -> StackReading:
    """Asks this one, or says why there is none."""
    answer, reason = ({}, found.reason) if found.path is None else ask_interpreter(found, timeout_s)
    return reading_of(answer, cwd=found.cwd, root=root, reason=reason)


def ask_interpreter(interpreter: Interpreter, timeout_s: float = 20.0) -> tuple[dict[str, Any], str | None]:
    """(what asked.py prints, why it is empty)"""
    script = Path(__file__).with_name("asked.py").read_text()
    question = {
        "first_path": interpreter.first_path,
        "names": PACKAGES,
        "prefixes": PREFIXES,
        "modules": list(MODULES),
    }
    env = {name: value for name, value in interpreter.env.items() if name not in _UNWANTED_ENV}
    ran = run_bounded(
        [str(interpreter.path), *interpreter.options, "-c", script, json.dumps(question)],
        env={**env, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=interpreter.cwd,
        timeout_s=timeout_s,
    )
    return parse_answer(ran, str(interpreter.path))


def parse_answer(ran: Ran, path: str) -> tuple[dict[str, Any], str | None]:
    if ran.reason is not None:
        return {}, f"the packages are not known: {ran.reason}"
    marked = [line for line in ran.output.splitlines() if line.startswith("sitrep-stack:")]
    try:
        answer = json.loads(marked[-1].partition(":")[2])
    except (IndexError, ValueError):
        return {}, f"the packages are not known: {path} gave no answer"
    return answer, None


def reading_of(
    answer: Mapping[str, Any], *, cwd: str | Path, root: Path = Path("/"), reason: str | None = None
) -> StackReading:
    """`answer` is what asked.py printed, or empty."""
    packages = {**_named_modules(answer), **answer.get("packages", {})}
    outside = [folder for folder in answer.get("folders", {}).values() if not _INSTALLED.search(folder)]
    editable = [unquote(path) for path in answer.get("editable", ())]
    controlled = [GitTree(_without_login(item["url"]), item["commit"], None) for item in answer.get("controlled", ())]
    trees = git_trees([*editable, *outside, cwd])
    return StackReading(
        packages=dict(sorted(packages.items())),
        driver=driver_version(root),
        cuda=answer.get("cuda") or _version_of(packages, "nvidia-cuda-runtime"),
        cudnn=_version_of(packages, "nvidia-cudnn"),
        hip=answer.get("hip"),
        python=answer.get("python"),
        executable=answer.get("executable"),
        os=_os_name(),
        git=(*trees, *controlled),
        diffs=tuple(tree_diffs(trees)),
        note=reason,
    )


def driver_version(root: Path = Path("/")) -> str | None:
    """Of the loaded NVIDIA kernel module, as it says in /proc."""
    try:
        told = (root / "proc/driver/nvidia/version").read_text(errors="replace")
    except OSError:
        return None
    match = re.search(r"Kernel Module.*?\s(\d+\.\d+(?:\.\d+)?)\s", told)
    return match[1] if match else None


def _named_modules(answer: Mapping[str, Any]) -> dict[str, str]:
    """Versions of modules that are found but not installed, such as a source tree on PYTHONPATH."""
    packages = answer.get("packages", {})
    versions = answer.get("versions", {})
    return {
        name: versions[module]
        for module, name in MODULES.items()
        if versions.get(module) and name not in packages and _OTHER_NAMES.get(name) not in packages
    }


def _version_of(packages: Mapping[str, str], prefix: str) -> str | None:
    """nvidia-cudnn-cu12 and nvidia-cudnn-cu13 are the same library for two CUDA versions."""
    names = [name for name in packages if name == prefix or re.fullmatch(re.escape(prefix) + r"-cu\d+", name)]
    return packages[max(names)] if names else None


def _without_login(url: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return f"{platform.system()} {os.uname().release}"
