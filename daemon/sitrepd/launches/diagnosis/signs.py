"""Single lines that say how far a server has come, that it goes on, that it ends, or that a process of it died."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal

from sitrepd.launches.diagnosis.prefixes import Line

_PROGRESS = re.compile(
    r"The server is fired up and ready|Application startup complete|(?:Decode|Prefill) batch|Load weight (?:begin|end)"
    r"|Capture .{0,60}(?:begin|end)|Memory pool end|max_total_num_tokens=|Uvicorn running on|Avg prompt throughput"
    r"|Init (?:parallel|torch distributed) (?:begin|ends)|GPU KV cache size|Loading weights took|Model loading took"
    r"|Graph capturing finished|KV Cache is allocated|\" 200 OK|Starting vLLM API server|init engine .* took"
)
_READY = re.compile(r"The server is fired up and ready to roll|Application startup complete")
_DEATH = re.compile(
    r"[Rr]eceived sigquit|SIGQUIT received|crashed with exit code|scheduler is dead|died during initialization"
    r"|Engine core initialization failed|EngineDeadError|Engine core proc .{0,40}died|[Ee]ngine process failed to start"
    r"|AsyncLLMEngine has failed|MQLLMEngine terminated|server exited (?:early )?with code|include_parent=True|^Killed$"
    r"|exited with code [1-9]\d*|\(core dumped\)|Worker proc \S+ died unexpectedly|[Ww]orker.{0,40} died"
    r"|child process .{0,40}(?:died|exited)|Shutting down.{0,30}(?:due to|because)"
    r"|exiting due to .{0,40}error|^(?:main: )?error: unable to load model"
)
_EXIT_CODE = re.compile(r"(?:[Ee]xit code:? ?\(?|exited (?:early )?with code |\(exit code: |with code )(?P<code>-?\d+)")
_FALL = re.compile(r"[Rr]eceived sigquit|SIGQUIT received|include_parent=True")
_STOP = re.compile(
    r"SIGTERM received|API server: shutdown triggered|trigger received signal="
    r"|Gracefully exiting|Received signal (?:15|2)\b|^INFO: +Shutting down|Shutting down$"
    r"|Finished server process"
    r"|^KeyboardInterrupt|crashed with exit code -15|Received SIGTERM|Received SIGINT"
    r"|slurmstepd: error: \*\*\* (?:JOB|STEP) \S+ ON \S+ CANCELLED"
)
GAVE_UP = re.compile(r"[Ss]erver (?:failed to start|did not (?:start|become (?:ready|healthy))) within (?:the |\d)")
_FIRST_AVAIL = re.compile(r"Load weight begin\. avail mem=(?P<gib>-?\d+(?:\.\d+)?) GB")
_RESTART = re.compile(r"server_args=|vLLM API server version")
_WORDS = (
    "fired up", "startup complete", " batch", "Load weight", "Capture ", "Memory pool",
    "max_total_num", "Uvicorn",
    "Avg prompt", "Init ", "KV ", "oading", "Graph capt", "200 OK", "sigquit", "[shutdown]", " within ",
    "SIGQUIT", "xit", "dead", "died", "Engine",
    "engine", "Killed", "core dumped", "hutting", "SIGTERM", "SIGINT", "signal",
    "Finished server", "Keyboard", "Gracefully",
    "CANCELLED", "include_parent", "xiting", "unable to load",
)  # fmt: skip


@dataclass
class Signs:
    """Numbers of lines, 0 for never; `codes` are exit codes of children that the log tells."""

    ready_at: int = 0
    progress_at: int = 0
    stop_at: int = 0
    gave_up: tuple[int, str] | None = None
    """Where whoever waited for the server says that it took too long."""
    record_at: int = 0
    """The last record of the engine's log that names no trouble by its level."""
    deaths: list[tuple[int, str]] = field(default_factory=list)
    codes: list[tuple[int, str, int]] = field(default_factory=list)
    progress: list[int] = field(default_factory=list)
    first_avail_gib: float | None = None

    def feed(self, number: int, line: Line) -> Literal["", "progress", "death", "stop"]:
        """What kind of sign the line is."""
        text = line.text
        if line.stamped and line.level in ("", "INFO"):
            self.record_at = number
        if len(text) > 4000 or not any(word in text for word in _WORDS):
            return ""
        if _STOP.search(text):
            self.stop_at = self.stop_at or number
            return "stop"
        if _DEATH.search(text) or _EXIT_CODE.search(text):
            self.deaths.append((number, text))
            found = _EXIT_CODE.search(text)
            if found:
                self.codes.append((number, text, int(found["code"])))
            return "death"
        if GAVE_UP.search(text):
            self.gave_up = self.gave_up or (number, text)
            return ""
        if _PROGRESS.search(text):
            self._progress(number, text)
            return "progress"
        return ""

    def _progress(self, number: int, text: str) -> None:
        self.progress_at = number
        if len(self.progress) < 5000 or number - self.progress[-1] > 100:
            self.progress.append(number)
        if _READY.search(text):
            self.ready_at = number
        if self.first_avail_gib is None:
            found = _FIRST_AVAIL.search(text)
            self.first_avail_gib = float(found["gib"]) if found else None

    @property
    def fell_at(self) -> int:
        """Where the launcher began to end all processes: kills and aborts after it are its own doing; 0 for never."""
        return next((at for at, text in self.deaths if _FALL.search(text)), 0)

    def goes_on_between(self, after: int, before: int) -> bool:
        """Whether the server made progress between two lines."""
        return any(after < at < before for at in self.progress)


def begins_anew(line: Line) -> bool:
    """Whether a server's very first record stands here."""
    return bool(_RESTART.match(line.text))
