"""The words for what measures, and for how far a benchmark is that is run."""

from __future__ import annotations

from typing import Literal

ToolName = Literal["sglang", "sglang-rust", "vllm", "guidellm", "aiperf", "command"]
JobState = Literal["queued", "warming", "running", "done", "failed", "stopped", "lost"]
LIVING = ("queued", "warming", "running")
