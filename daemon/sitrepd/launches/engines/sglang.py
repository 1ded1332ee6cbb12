"""SGLang: its command lines, how it is asked and stopped, and its log (`_sglang_parser`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from pathlib import PurePosixPath
from typing import Any

from sitrepd.launches.engines import _flags, _skim
from sitrepd.launches.engines.base import CommandFacts, LogParser, Probe, StopStep
from sitrepd.redact import is_secret_name, redact_argv

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 30000

_SPECULATIVE = (
    ("speculative_algorithm", ("speculative_algorithm", "speculative_algo")),
    ("speculative_num_steps", ("speculative_num_steps",)),
    ("speculative_eagle_topk", ("speculative_eagle_topk",)),
    ("speculative_num_draft_tokens", ("speculative_num_draft_tokens",)),
)
_OFF = ("0", "false", "no", "off")


class SglangEngine:
    """SGLang 0.4.0 to 0.5.23 (see `LogParser`, `Engine`)."""

    name = "sglang"

    @property
    def probes(self) -> tuple[Probe, ...]:
        """`/ready` (0.5.20 and later) costs nothing; `/health` generates a token, takes 1 to 2 s, and logs a line."""
        return (
            Probe(
                "/ready", 2.0, disturbs=False, says={200: "ready", 503: "not_ready", 404: "ask_next", 405: "ask_next"}
            ),
            Probe("/health", 10.0, disturbs=True, says={200: "ready", 503: "not_ready"}),
        )

    @property
    def stop_signals(self) -> tuple[StopStep, ...]:
        """SIGTERM to the main process alone drains; to the whole group it looks like a crash."""
        return (StopStep("SIGTERM", "main", 30.0), StopStep("SIGKILL", "group", 5.0))

    @property
    def skim(self) -> Callable[[bytes], bytes]:
        return _skim.sglang

    def recognises(self, argv: Sequence[str]) -> bool:
        """`python -m sglang.launch_server`, `sglang serve`, and the same behind nohup, env, numactl or bash -c."""
        return _program_end(_flags.words_of(argv)) > 0

    def describe(self, argv: Sequence[str], env: Mapping[str, str]) -> CommandFacts:
        words = _flags.words_of(argv)
        flags, positional = _flags.parse_flags(redact_argv(words)[_program_end(words) :])
        has_key = "api_key" in flags
        flags = {name: value for name, value in flags.items() if not (is_secret_name(name) and value is not True)}
        return CommandFacts(
            engine=self.name,
            model_path=_flags.text(flags, "model_path", "model") or (positional[0] if positional else None),
            draft_model_path=_flags.text(flags, "speculative_draft_model_path", "speculative_draft_model"),
            served_name=_flags.text(flags, "served_model_name"),
            host=_flags.text(flags, "host") or DEFAULT_HOST,
            port=_port(flags),
            tp_size=_size(flags, "tp_size", "tp", "tensor_parallel_size"),
            dp_size=_size(flags, "dp_size", "dp", "data_parallel_size"),
            pp_size=_size(flags, "pp_size", "pp", "pipeline_parallel_size"),
            ep_size=_size(flags, "ep_size", "ep", "expert_parallel_size"),
            nodes=_size(flags, "nnodes"),
            node_rank=_flags.whole(flags, "node_rank") or 0,
            mem_fraction=_flags.decimal(flags, "mem_fraction_static"),
            speculative=_speculative(flags),
            flags=flags,
            has_api_key=has_key,
            health_generates=env.get("SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION", "1").lower() not in _OFF,
            timezone=env.get("TZ", "").removeprefix(":"),
        )

    def parser(self, state: dict[str, Any] | None = None, *, tz: tzinfo | None = None) -> LogParser:
        from sitrepd.launches.engines._sglang_parser import SglangParser

        return SglangParser(state, tz)


def _program_end(words: Sequence[str]) -> int:
    """The place behind the program's own name, 0 where these words start no SGLang server."""
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        path = PurePosixPath(word)
        if word == "sglang.launch_server" and before == "-m":
            return place + 1
        if word == "-msglang.launch_server" or path.parts[-2:] == ("sglang", "launch_server.py"):
            return place + 1
        if word == "serve" and PurePosixPath(before).name == "sglang":
            return place + 1
        if word == "serve" and before in ("sglang.cli.main", "sglang.cli", "sglang") and place > 1:
            return place + 1 if words[place - 2] == "-m" else 0
    return 0


def _port(flags: _flags.Flags) -> int | None:
    """None where a port is given that is no number."""
    return _flags.whole(flags, "port") if "port" in flags else DEFAULT_PORT


def _size(flags: _flags.Flags, *names: str) -> int:
    return _flags.whole(flags, *names) or 1


def _speculative(flags: _flags.Flags) -> dict[str, str | int]:
    asked: dict[str, str | int] = {}
    for key, names in _SPECULATIVE:
        value = _flags.text(flags, *names)
        if value is not None:
            asked[key] = int(value) if value.isdigit() else value
    return asked
