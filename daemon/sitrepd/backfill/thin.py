"""The lines of a long log that tell something, with their numbers: what repeats without end is left out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from sitrepd.launches.engines import _skim

_FIGURES_EVERY = 256 << 10
_LONGEST = 64 << 10
_PATIENCE = 30_000
_BEFORE, _AFTER = 2 << 10, 8 << 10
_LINE = re.compile(rb"[^\n]+")
_FIGURE = re.compile(rb"[^\n]*(?:\] (?:Decode|Prefill) batch|: Avg prompt|\] SpecDecoding)[^\n]*\n")
_REPEATED = {"sglang": _skim.SGLANG, "vllm": _skim.VLLM}
_TROUBLE = re.compile(
    rb"hit an exception|Traceback \(most recent|eceived sigquit|crashed with exit code|Fatal Python error|[wW]atchdog"
    rb"|Health check failed|ddress already in use|NCCL WARN|Xid \(PCI|out of memory|fired up and ready|SIGTERM received"
    rb"|server_args=|non-default args|Error: |Application startup complete|Shutting down|Load weight|KV Cache"
    rb"|Capture |Engine startup timings|max_total_num_tokens|Uvicorn running"
)


class Line(NamedTuple):
    """A physical line, its number from 1, and whether lines before it were left out that may have told something."""

    number: int
    text: bytes
    gap: bool


class Thinner:
    """Fed with blocks of whole lines in order."""

    def __init__(self, engine: str) -> None:
        self._repeated = _REPEATED[engine]
        self._number = 1
        self._told = 0

    def start_again(self) -> None:
        """Another server begins to write: its lines are all wanted again."""
        self._told = 0

    def lines(self, block: bytes) -> Iterator[Line]:
        """Once there were very many lines, only those around words that matter are told any more."""
        kept = self._without_repeated(block)
        number, at, wanted_to, gap = self._number, 0, -1, False
        self._number += block.count(b"\n")
        place = 0
        while match := _LINE.search(kept, place):
            start = match.start()
            if self._told > _PATIENCE and start > wanted_to:
                trouble = _TROUBLE.search(kept, start)
                if trouble is None:
                    return
                wanted_to = trouble.end() + _AFTER
                begin = kept.rfind(b"\n", start, max(trouble.start() - _BEFORE, start)) + 1
                if begin > start:
                    place, gap = begin, True
                    continue
            number += kept.count(b"\n", at, start)
            at = start
            self._told += 1
            yield Line(number, match[0][:_LONGEST], gap)
            place, gap = match.end(), False

    def _without_repeated(self, block: bytes) -> bytes:
        """As many line feeds as before; of the figures the last of each stretch stays."""
        parts, at = [], 0
        for end in range(_FIGURES_EVERY, len(block) + _FIGURES_EVERY, _FIGURES_EVERY):
            end = min(end, len(block))
            place = max(block.rfind(word, at, end) for word in (b" batch", b": Avg prompt", b"] SpecDecoding"))
            begin = block.rfind(b"\n", 0, place) + 1 if place >= 0 else -1
            figure = _FIGURE.match(block, begin) if begin >= at else None
            if figure is not None:
                parts += [self._repeated.sub(b"\n", block[at:begin]), figure[0]]
                at = figure.end()
        parts.append(self._repeated.sub(b"\n", block[at:]))
        return b"".join(parts)
