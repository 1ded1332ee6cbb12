"""How far the start has come, by the engine's own parser, and for vLLM and others by the lines that they print."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from sitrepd.launches.engines import base as e
from sitrepd.launches.engines.sglang import SglangEngine

_EPOCH = datetime.fromtimestamp(0, UTC)
_OTHERS = (
    (
        "dist_init",
        re.compile(r"world_size=\d+ rank=\d+|is using nccl==|Found nccl from library|distributed_init_method"),
    ),
    (
        "load_weights",
        re.compile(r"Starting to load model|Loading (?:safetensors|pt) checkpoint shards|Using model weights format"),
    ),
    ("kv_cache", re.compile(r"Loading weights took|Model loading took|Loading model weights took")),
    ("compile_kernels", re.compile(r"Dynamo bytecode transform|Using cache directory: .* for vLLM's torch\.compile")),
    (
        "capture_graphs",
        re.compile(r"Capturing (?:the model|CUDA graph)|GPU KV cache size|# GPU blocks:|Graph capturing"),
    ),
    ("http_start", re.compile(r"init engine .* took|Started server process|Starting vLLM API server")),
)
_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")
_READY = re.compile(r"Application startup complete|Uvicorn running on|server is listening on")
_ANSWERED = re.compile(r'"POST /\S+ HTTP/[\d.]+" 200\b|Avg (?:prompt|generation) throughput')
_ASKED = re.compile(r'"(?:GET|POST) /v1/\S+ HTTP/[\d.]+" 200\b')
_VLLM = re.compile(r"vLLM API server|Initializing an? (?:V1 )?LLM engine|\(APIServer|\(EngineCore")
_VLLM_ACTOR = re.compile(r"(?:APIServer|EngineCore)")
_SGLANG = re.compile(
    r"\bsglang[./]|Load weight begin|Init torch distributed|Memory pool end|max_total_num_tokens=|get_model_info"
    r"|^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?: [A-Z]+\d+)*\] "
)
_BATCH = re.compile(r"Decode (?:batch[.,]|out of memory happened\.)")
_WARMUPS = 1
"""Requests that SGLang sends to itself before it is ready."""


class Progress:
    """Fed with raw lines in order."""

    def __init__(self) -> None:
        self._parser = SglangEngine().parser(tz=UTC)
        self._open: dict[str, e.PhaseInfo] = {}
        self._begun: dict[str, datetime] = {}
        self._last_at: datetime | None = None
        self._other = ""
        self._left = ""
        self._configured = False
        self._other_ready = False
        self._listens = False
        self._answers = 0
        self.ready = False
        self.suspect = False
        self.is_sglang = False
        self._is_vllm = False
        self.stood_s = 0.0
        """Seconds from the begin of the distributed init to the last record before its end."""
        self._init_at: datetime | None = None

    def feed(self, raw: str, actor: str = "") -> None:
        """`actor` is who wrote the line, which stands in front of what vLLM's processes write."""
        self._is_vllm = self._is_vllm or (not self.is_sglang and _VLLM_ACTOR.match(actor) is not None)
        for event in self._parser.feed(raw, _EPOCH):
            self._last_at = event.at if event.at != _EPOCH else self._last_at
            self._note(event)
        if self._init_at is not None and self.phase == "dist_init":
            self._stand(raw)
        self._recognise(raw)
        self._hear(raw)
        if not self.is_sglang:
            self._feed_other(raw)

    def _note(self, event: e.LogEvent) -> None:
        match event:
            case e.PhaseBegan():
                self._open[event.phase] = e.PHASE[event.phase]
                self._begun[event.phase] = event.at
                if event.phase == "dist_init":
                    self._init_at, self.stood_s = event.at, 0.0
            case e.PhaseEnded():
                self._open.pop(event.phase, None)
                self._left = event.phase if event.phase != "starting" else self._left
            case e.Ready():
                self.ready, self.suspect, self.is_sglang = True, event.suspect, True
            case e.Settings():
                self.is_sglang = self._configured = True
            case e.Restarted():
                self.restart()
            case _:
                pass

    def _recognise(self, raw: str) -> None:
        """By what only one engine writes: the lines of the HTTP server and of the loader are the same in several."""
        if not self.is_sglang and not self._is_vllm:
            self._is_vllm = bool(_VLLM.search(raw))
            self.is_sglang = not self._is_vllm and bool(_SGLANG.search(raw))

    def _hear(self, raw: str) -> None:
        """Whoever answers requests is ready, whatever the line is that this release announces it with, or none."""
        if "Application startup complete" in raw:
            self._listens = True
        elif not self._configured and set(self._open) <= {"starting"} and not self._left and _BATCH.search(raw):
            # An excerpt from the midst of a server's life.
            self.ready = True
        elif "HTTP/" in raw or "throughput" in raw:
            self._answers += bool(_ANSWERED.search(raw))
            if self.is_sglang:
                self.ready = self.ready or (self._listens and self._answers > _WARMUPS)
            elif self._answers or (self._listens and _ASKED.search(raw)):
                self._other_ready = True

    def _stand(self, raw: str) -> None:
        found = _STAMP.match(raw)
        if found and self._init_at is not None:
            at = datetime.fromisoformat(found[1]).replace(tzinfo=UTC)
            self.stood_s = max(self.stood_s, (at - self._init_at).total_seconds())

    @property
    def elapsed_s(self) -> float:
        """How long the present phase had lasted when the log last said anything; 0 where that is not known."""
        begun = self._begun.get(self.phase)
        if begun is None or begun == _EPOCH or self._last_at is None:
            return 0.0
        return max(0.0, (self._last_at - begun).total_seconds())

    def restart(self) -> None:
        """Another server begins in the same log."""
        self._open, self._other, self._left, self._other_ready, self.ready, self.suspect = (
            {},
            "",
            "",
            False,
            False,
            False,
        )
        self._listens, self._answers = False, 0
        self._open["starting"] = e.PHASE["starting"]

    def _feed_other(self, raw: str) -> None:
        if _READY.search(raw):
            self._other_ready = self._is_vllm or "is listening on" in raw
        for name, pattern in _OTHERS:
            if pattern.search(raw):
                self._other, self._other_ready = name, False

    @property
    def is_ready(self) -> bool:
        return self.ready or (self._other_ready and not self.is_sglang)

    @property
    def phase(self) -> str:
        """ "" when ready or when nothing is known."""
        if self.is_ready:
            return ""
        if not self.is_sglang and self._other:
            return self._other
        current = e.current_phase(self._open) if set(self._open) - {"starting"} or not self._left else None
        return current.name if current else self._left

    @property
    def state(self) -> str:
        if self.is_ready:
            return "ready"
        return e.PHASE[self.phase].state if self.phase else "starting"
