"""Catching up on the log of days: what repeats without end is thinned before it is taken apart line by line."""

from __future__ import annotations

import re

_FIGURES_EVERY = 128 * 1024

SGLANG = re.compile(
    rb"\[[^\]\n]+\] (?:Decode batch|Prefill batch|INFO:     [0-9]|Receive: |Finish: |Receive OpenAI)[^\n]*\n"
)
VLLM = re.compile(
    rb"(?:\([A-Z][^)\n]+\) )?INFO(?::     [0-9]|[ 0-9:-]+ \[[^\]\n]+\] "
    rb"(?:Engine [0-9]+: |SpecDecoding |Received request |Added request ))[^\n]*\n"
)


def sglang(block: bytes) -> bytes:
    """Whole lines in their order, without batch, request and access lines; some of the figures stand at the end."""
    return _thin(block, SGLANG, (b"] Decode batch", b"] Prefill batch"))


def vllm(block: bytes) -> bytes:
    """As `sglang`; an access line begins a line of its own here too, with the name of its process or without."""
    return _thin(block, VLLM, (b": Avg prompt", b"] SpecDecoding"))


def _thin(block: bytes, repeated: re.Pattern[bytes], figures: tuple[bytes, ...]) -> bytes:
    kept = []
    for end in range(_FIGURES_EVERY, len(block) + 1, _FIGURES_EVERY):
        for word in figures:
            place = block.rfind(word, end - _FIGURES_EVERY, end)
            if place >= 0:
                begin, stop = block.rfind(b"\n", 0, place) + 1, block.find(b"\n", place) + 1
                if stop and repeated.fullmatch(block, begin, stop):
                    kept.append(block[begin:stop])
    return repeated.sub(b"", block) + b"".join(kept)
