"""Batches that could not be recorded as CUDA graphs."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_IN_PYTHON = re.compile(
    r"(?:TypeError|AttributeError|ImportError|ModuleNotFoundError|NameError|KeyError|FileNotFoundError)\b"
)
_OF_TYPE = re.compile(r"only supports? [\w ,/]*(?:data ?)?type")
_ADVICE = re.compile(r"[Cc]apture \w+ graph failed")


def _is_own(case: Case) -> bool:
    """Whether the exception began here, and is not of a rank that has lost the others."""
    return (
        re.search(
            r"[Cc]onnection|[Bb]roken ?[Pp]ipe|EOFError|NCCL|SystemExit|KeyboardInterrupt|[Tt]imed out", case.text
        )
        is None
    )


def _cause(case: Case) -> str:
    """With the exception itself where it is told: SGLang's advice about graphs only follows it."""
    told = next((text for _, text in case.incident.causes if not _ADVICE.search(text)), "")
    what = f": {told[:200]}" if told else "; the exception above the advice says which."
    return f"A kernel could not be recorded into a CUDA graph{what}"


def _fix(case: Case) -> str:
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


RULES: tuple[Rule, ...] = (
    rule(
        "cuda_graph_capture",
        r"[Cc]apture (?:cuda|CUDA|npu|cpu) graph failed|cudaErrorStreamCapture\w*|operation (?:not permitted"
        r"|would make the legacy stream).*captur"
        r"|during (?:cuda |CUDA )?graph capture|capture_begin|operation failed due to a previous error during capture"
        r"|custom_all_reduce\.cuh:\d+ 'invalid argument'|stream is capturing|capturing stream has unjoined work"
        r"|Fail when using backend: \S+ for prefill runner|CUDA graph capture failed|Failed to capture",
        "Capturing CUDA graphs failed",
        _cause,
        _fix,
        needs=lambda case: re.search(r"[Cc]onnection (?:closed|reset)|[Bb]roken pipe", case.text) is None,
    ),
    rule(
        "cuda_graph_capture",
        r"\S",
        lambda case: f"Capturing CUDA graphs failed: {case.incident.cause[1][:160]}",
        lambda case: (
            f"An exception came out of the code that records a batch as a CUDA graph: {case.incident.cause[1][:200]}"
        ),
        _fix,
        frames=r"in capture_one_batch_size|in capture_model|in capture\b"
        r"|in _capture_cudagraphs?\b|torch/cuda/graphs\.py"
        r"|in _?capture_graphs?\b",
        on="block",
        needs=lambda case: bool(case.incident.causes) and _is_own(case),
        standing="follows",
    ),
)
