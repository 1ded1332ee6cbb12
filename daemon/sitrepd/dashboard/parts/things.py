"""What the work is done with: models, the software, files that matter, results of others."""

from __future__ import annotations

from typing import Any

from sitrepd.benchmarks.profiles.found import shares
from sitrepd.benchmarks.trainings.best import best, places
from sitrepd.dashboard.view import View

_MOST = 30
_LONGEST = 3
_FIRST = ("sglang", "vllm", "torch", "flashinfer-python", "sgl-kernel", "triton", "transformers", "nvidia-nccl-cu12")


def look(view: View) -> dict[str, Any]:
    stacks = view.told("stack", 1)
    return {
        "models": list(reversed(view.told("model", _MOST))),
        "stack": stacks[0] if stacks else None,
        "packages": _packages(stacks[0].packages) if stacks else [],
        "artifacts": list(reversed(view.told("artifact", _MOST))),
        "references": list(reversed(view.told("reference", _MOST))),
        "trainings": [(one, best(places(one.points))) for one in reversed(view.told("training", _MOST))],
        "profiles": [(one, _longest(one)) for one in reversed(view.told("profile", _MOST))],
    }


def _longest(told: Any) -> list[tuple[str, float]]:
    """The phases with the largest shares, of all groups but the whole."""
    phases = [phase.model_dump() for phase in told.phases]
    named = [
        (phase["name"], share)
        for phase, share in zip(phases, shares(phases), strict=True)
        if share is not None and phase["group"] != "whole"
    ]
    return sorted(named, key=lambda one: -one[1])[:_LONGEST]


def _packages(told: dict[str, str]) -> list[tuple[str, str]]:
    """Those that decide how fast it is come first."""
    return sorted(told.items(), key=lambda item: (_FIRST.index(item[0]) if item[0] in _FIRST else 99, item[0]))
