"""What an engine knows about its servers: the phases of a start, the events in a log, the protocols."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Any, ClassVar, Literal, Protocol, TypeAlias

ReadinessState = Literal["starting", "loading", "capturing", "warming"]
Role = Literal["", "target", "draft"]


@dataclass(frozen=True, slots=True)
class PhaseInfo:
    """One phase of a start, with the readiness state that a launch has while it is in this phase."""

    name: str
    title: str
    state: ReadinessState


PHASES: tuple[PhaseInfo, ...] = (
    PhaseInfo("starting", "Starting", "starting"),
    PhaseInfo("dist_init", "Distributed init", "starting"),
    PhaseInfo("load_weights", "Loading weights", "loading"),
    PhaseInfo("load_draft_weights", "Loading draft weights", "loading"),
    PhaseInfo("kv_cache", "Allocating KV cache", "loading"),
    PhaseInfo("draft_kv_cache", "Allocating draft KV cache", "loading"),
    PhaseInfo("autotune", "Autotuning kernels", "capturing"),
    PhaseInfo("compile_kernels", "Compiling kernels", "capturing"),
    PhaseInfo("capture_graphs", "Capturing graphs", "capturing"),
    PhaseInfo("capture_prefill", "Capturing prefill graphs", "capturing"),
    PhaseInfo("capture_decode", "Capturing decode graphs", "capturing"),
    PhaseInfo("capture_verify", "Capturing verify graphs", "capturing"),
    PhaseInfo("capture_draft_prefill", "Capturing draft prefill graphs", "capturing"),
    PhaseInfo("capture_draft_decode", "Capturing draft decode graphs", "capturing"),
    PhaseInfo("capture_draft_verify", "Capturing draft verify graphs", "capturing"),
    PhaseInfo("capture_draft_extend", "Capturing draft extend graphs", "capturing"),
    PhaseInfo("http_start", "Starting HTTP server", "warming"),
    PhaseInfo("warmup", "Warming up", "warming"),
)
"""All phases in the order of display; `capture_graphs` is the undivided capture of SGLang up to 0.5.12."""

PHASE: Mapping[str, PhaseInfo] = {phase.name: phase for phase in PHASES}
PHASE_ORDER: Mapping[str, int] = {phase.name: order for order, phase in enumerate(PHASES)}


def current_phase(open_phases: Iterable[str]) -> PhaseInfo | None:
    """The earliest of the open phases, where the slowest rank is: what the launch is doing, and so its state."""
    return min((PHASE[name] for name in open_phases), key=lambda phase: PHASE_ORDER[phase.name], default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """`at` is the line's own time in UTC (the time of reading where a line has none); `rank` is "TP0" or ""."""

    kind: ClassVar[str] = ""
    at: datetime
    rank: str = ""
    role: Role = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseBegan(Event):
    """The first rank entered a phase; a phase seen again is the same phase in a later `round` (or goes on)."""

    kind: ClassVar[str] = "phase_began"
    phase: str
    round: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseProgress(Event):
    """A bar moved; `elapsed_s` is the bar's own clock, and its estimate of the rest is left out: it misleads."""

    kind: ClassVar[str] = "phase_progress"
    phase: str
    done: int
    total: int
    unit: str
    elapsed_s: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseEnded(Event):
    """The last rank left a phase; `elapsed_s` as printed (slowest rank, summed over rounds), None if not printed."""

    kind: ClassVar[str] = "phase_ended"
    phase: str
    elapsed_s: float | None = None
    round: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sized(Event):
    """A size of one rank: weight_bytes, kv_cache_bytes, kv_tokens, graph_bytes, available_bytes, context_len, …"""

    kind: ClassVar[str] = "sized"
    name: str
    value: int
    unit: str
    phase: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described(Event):
    """A word about the model as loaded: model_class, quantization, kv_dtype, graph_backend."""

    kind: ClassVar[str] = "described"
    name: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Event):
    """The settings as the engine resolved them, secrets left out."""

    kind: ClassVar[str] = "settings"
    values: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings(Event):
    """The engine's own summary of its start in seconds, nested names joined by a dot ("cuda_graph.prefill")."""

    kind: ClassVar[str] = "timings"
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput(Event):
    """One batch line; what the line does not say is None, what it says beyond these fields is in `other`."""

    kind: ClassVar[str] = "throughput"
    batch: Literal["prefill", "decode"]
    running: int | None = None
    queued: int | None = None
    tokens: int | None = None
    token_usage: float | None = None
    gen_tok_s: float | None = None
    input_tok_s: float | None = None
    accept_len: float | None = None
    accept_rate: float | None = None
    new_tokens: int | None = None
    cached_tokens: int | None = None
    graph: bool | None = None
    other: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compiled(Event):
    """A kernel was (or is being) compiled or tuned; after `ready` it spoils the benchmark that waits for it."""

    kind: ClassVar[str] = "compiled"
    what: str
    seconds: float | None = None
    after_ready: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening(Event):
    """The HTTP server says that it is bound (`port`), or that its process has started (`pid`)."""

    kind: ClassVar[str] = "listening"
    host: str = ""
    port: int | None = None
    pid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(Event):
    """The ready line; `suspect` where the port was taken, for then it speaks of somebody else's server."""

    kind: ClassVar[str] = "ready"
    text: str
    suspect: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PortTaken(Event):
    """The address was in use when the server tried to bind."""

    kind: ClassVar[str] = "port_taken"
    text: str
    port: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed(Event):
    """A failure: `cause` is one line, `summary` the end of its traceback; `first` marks the earliest of a launch."""

    kind: ClassVar[str] = "failed"
    where: str
    cause: str
    summary: str = ""
    phase: str = ""
    first: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopping(Event):
    """The server was asked to end (SIGTERM), so what dies after this has not failed."""

    kind: ClassVar[str] = "stopping"
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned(Event):
    """The engine changed what was asked or warns of it; `what` is a stable short name, `text` the line itself."""

    kind: ClassVar[str] = "warned"
    what: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted(Event):
    """Another start writes to the same log (`>> file`): all that was told before belongs to an earlier server."""

    kind: ClassVar[str] = "restarted"


LogEvent: TypeAlias = (
    PhaseBegan
    | PhaseProgress
    | PhaseEnded
    | Sized
    | Described
    | Settings
    | Timings
    | Throughput
    | Compiled
    | Listening
    | Ready
    | PortTaken
    | Failed
    | Stopping
    | Warned
    | Restarted
)

_KINDS: dict[str, Any] = {kind.kind: kind for kind in LogEvent.__args__}


def event_to_json(event: LogEvent) -> dict[str, Any]:
    """Plain data with `kind` first and `at` in ISO 8601."""
    values = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
    return {"kind": event.kind} | values | {"at": event.at.isoformat()}


def event_from_json(data: Mapping[str, Any]) -> LogEvent:
    """Raises KeyError for a kind that does not exist, TypeError for a field that does not."""
    values = dict(data)
    kind = _KINDS[values.pop("kind")]
    event: LogEvent = kind(**values | {"at": datetime.fromisoformat(values["at"])})
    return event


@dataclass(frozen=True, slots=True)
class Probe:
    """One HTTP question about readiness; `path` is absolute (http://…) where a user gave a whole address."""

    path: str
    timeout_s: float
    disturbs: bool
    says: Mapping[int, Literal["ready", "not_ready", "ask_next"]]

    def answer(self, status: int) -> Literal["ready", "not_ready", "ask_next", "unknown"]:
        """What an HTTP status means; no connection at all means not ready, and is not asked here."""
        return self.says.get(status, "unknown")


@dataclass(frozen=True, slots=True)
class StopStep:
    """One signal and how long to wait for the end after it."""

    signal: Literal["SIGINT", "SIGTERM", "SIGKILL"]
    target: Literal["main", "group"]
    grace_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFacts:
    """What a command line asks for; None is "not said", and secrets in `flags` are left out."""

    engine: str
    model_path: str | None = None
    draft_model_path: str | None = None
    served_name: str | None = None
    host: str | None = None
    port: int | None = None
    tp_size: int = 1
    dp_size: int = 1
    pp_size: int = 1
    ep_size: int = 1
    nodes: int = 1
    node_rank: int = 0
    mem_fraction: float | None = None
    speculative: dict[str, str | int] = field(default_factory=dict)
    flags: dict[str, str | bool | list[str]] = field(default_factory=dict)
    has_api_key: bool = False
    health_generates: bool = True
    timezone: str = ""


class LogParser(Protocol):
    """Turns lines into events; `state()` is plain data from which the engine's `parser` goes on exactly."""

    def feed(self, line: str, seen_at: datetime) -> list[LogEvent]:
        """One complete line without its end; never raises for any text.

        `seen_at` is for lines without a time of their own: now, or the file's last change where that is earlier.
        """
        ...

    def peek(self, partial: str, seen_at: datetime) -> list[LogEvent]:
        """Progress in an unfinished line, which will be fed again when it is complete; changes nothing."""
        ...

    def finish(self, seen_at: datetime) -> list[LogEvent]:
        """To be called once, when the process is gone: a traceback at the very end is its failure."""
        ...

    def state(self) -> dict[str, Any]: ...


class Engine(Protocol):
    """One kind of server."""

    name: str

    @property
    def probes(self) -> tuple[Probe, ...]:
        """To be asked in this order, the next one only after `ask_next` or `unknown`."""
        ...

    @property
    def stop_signals(self) -> tuple[StopStep, ...]: ...

    @property
    def skim(self) -> Callable[[bytes], bytes] | None:
        """Leaves out of a large piece of a log the lines that repeat and tell nothing of a start."""
        ...

    def recognises(self, argv: Sequence[str]) -> bool: ...

    def describe(self, argv: Sequence[str], env: Mapping[str, str]) -> CommandFacts: ...

    def parser(self, state: dict[str, Any] | None = None, *, tz: tzinfo | None = None) -> LogParser:
        """`tz` is the zone of the log's times, the machine's own when None."""
        ...
