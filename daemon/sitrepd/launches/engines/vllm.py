"""vLLM: its command lines, how it is asked and stopped, and its log (`_vllm_parser`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from pathlib import PurePosixPath
from typing import Any

from sitrepd.launches.engines import _flags, _skim
from sitrepd.launches.engines.base import CommandFacts, LogParser, Probe, StopStep
from sitrepd.redact import is_secret_name, redact_argv

DEFAULT_PORT = 8000
_MODULES = ("vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server")
_CLI = ("vllm", "vllm.entrypoints.cli.main", "vllm.scripts")


class VllmEngine:
    """vLLM, its V1 engine (0.8 and later), and what of V0 is worded alike (see `LogParser`, `Engine`)."""

    name = "vllm"

    @property
    def probes(self) -> tuple[Probe, ...]:
        """`/health` asks whether the engine's process lives, and generates nothing."""
        return (Probe("/health", 5.0, disturbs=False, says={200: "ready", 503: "not_ready"}),)

    @property
    def stop_signals(self) -> tuple[StopStep, ...]:
        return (StopStep("SIGTERM", "main", 30.0), StopStep("SIGKILL", "group", 5.0))

    @property
    def skim(self) -> Callable[[bytes], bytes]:
        return _skim.vllm

    def recognises(self, argv: Sequence[str]) -> bool:
        """`vllm serve`, `python -m vllm.entrypoints.openai.api_server`, and the same behind nohup, env or bash -c."""
        return _program_end(_flags.words_of(argv)) > 0

    def describe(self, argv: Sequence[str], env: Mapping[str, str]) -> CommandFacts:
        words = _flags.words_of(argv)
        flags, positional = _flags.parse_flags(redact_argv(words)[_program_end(words) :])
        has_key = "api_key" in flags or "VLLM_API_KEY" in env
        flags = {name: value for name, value in flags.items() if not (is_secret_name(name) and value is not True)}
        speculative = _speculative(flags)
        model = _flags.text(flags, "model", "model_tag") or (positional[0] if positional else None)
        return CommandFacts(
            engine=self.name,
            model_path=model,
            draft_model_path=_draft(flags, speculative),
            served_name=_flags.text(flags, "served_model_name"),
            host=_flags.text(flags, "host"),
            port=_flags.whole(flags, "port") if "port" in flags else DEFAULT_PORT,
            tp_size=_flags.whole(flags, "tensor_parallel_size", "tp") or 1,
            dp_size=_flags.whole(flags, "data_parallel_size", "dp") or 1,
            pp_size=_flags.whole(flags, "pipeline_parallel_size", "pp") or 1,
            nodes=_flags.whole(flags, "nnodes", "n") or 1,
            node_rank=_flags.whole(flags, "node_rank", "r") or 0,
            mem_fraction=_flags.decimal(flags, "gpu_memory_utilization"),
            speculative={name: value for name, value in speculative.items() if isinstance(value, str | int)},
            flags=flags,
            has_api_key=has_key,
            health_generates=False,
            timezone=env.get("TZ", "").removeprefix(":"),
        )

    def parser(self, state: dict[str, Any] | None = None, *, tz: tzinfo | None = None) -> LogParser:
        from sitrepd.launches.engines._vllm_parser import VllmParser

        return VllmParser(state, tz)


def _program_end(words: Sequence[str]) -> int:
    """The place behind the program's own name, 0 where these words start no vLLM server."""
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        if word in _MODULES and before == "-m":
            return place + 1
        if PurePosixPath(word).parts[-4:] == ("vllm", "entrypoints", "openai", "api_server.py"):
            return place + 1
        if word == "serve" and (PurePosixPath(before).name == "vllm" or before in _CLI):
            return place + 1
    return 0


def _speculative(flags: _flags.Flags) -> dict[str, Any]:
    """`--speculative-config '{"method": "eagle3", "model": …, "num_speculative_tokens": 3}'`, also as dotted flags."""
    text = _flags.text(flags, "speculative_config", "sc")
    told: dict[str, Any] = {}
    if text:
        try:
            read = json.loads(text)
            told = read if isinstance(read, dict) else {}
        except ValueError:
            told = {}
    for name, value in flags.items():
        head, dot, rest = name.partition(".")
        if head == "speculative_config" and dot and isinstance(value, str):
            told[rest] = int(value) if value.isdigit() else value
    return told


def _draft(flags: _flags.Flags, speculative: Mapping[str, Any]) -> str | None:
    model = speculative.get("model") or _flags.text(flags, "speculative_model")
    return model if isinstance(model, str) else None
