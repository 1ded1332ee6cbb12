"""What the work is done with: models, the software, files that matter, results of others."""

from __future__ import annotations

from typing import Any

from sitrepd.dashboard.view import View

_MOST = 30
_FIRST = ("sglang", "vllm", "torch", "flashinfer-python", "sgl-kernel", "triton", "transformers", "nvidia-nccl-cu12")


def look(view: View) -> dict[str, Any]:
    stacks = view.told("stack", 1)
    return {
        "models": list(reversed(view.told("model", _MOST))),
        "stack": stacks[0] if stacks else None,
        "packages": _packages(stacks[0].packages) if stacks else [],
        "artifacts": list(reversed(view.told("artifact", _MOST))),
        "references": list(reversed(view.told("reference", _MOST))),
        "trainings": list(reversed(view.told("training", _MOST))),
    }


def _packages(told: dict[str, str]) -> list[tuple[str, str]]:
    """Those that decide how fast it is come first."""
    return sorted(told.items(), key=lambda item: (_FIRST.index(item[0]) if item[0] in _FIRST else 99, item[0]))
