"""One incident looked at by one rule: what matched, where in the start it happened, what is known of the launch."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from sitrepd.launches.diagnosis.incidents import Incident
from sitrepd.launches.diagnosis.known import Known

Stage = Literal["", "load", "kv", "capture", "serve"]
Standing = Literal["primary", "follows", "secondary"]
"""follows: often only fell over after something else; secondary: always did."""

_CAPTURE = re.compile(
    r"cuda_graph_runner\.py(?!\", line \d+, in (?:replay|can_run))|cuda_graph_setup|capture_one_batch_size"
    r"|init_(?:cuda|device)_graphs?|capture_model"
    r"|in capture\b|_capture_cudagraph|graph_capture|piecewise_cuda_graph|compile_or_warm_up_model|_capture_graph"
)
_SERVE = re.compile(
    r"event_loop|run_batch|process_batch_result|forward_batch_generation|run_busy_loop|in step\b"
    r"|forward_thread_func|engine_step|run_engine_loop|step_async|in process_model_outputs|exposed_step"
    r"|in forward_(?:prefill|decode|fill)_batch"
)
_KV = re.compile(
    r"profile_run|init_memory_pool"
    r"|_init_pools|profile_max_num_token|determine_num_available_blocks|determine_available_memory"
    r"|initialize_kv_cache|memory_pool\.py|in _create_buffers|kv_cache_configurator|kv_pool_runtime|_allocate_kv_cache"
)
_LOAD = re.compile(
    r"in load_model|\.load_model\(|in get_model|in load_weights|_initialize_model|create_weights|model_loader"
    r"|load_model_|process_weights_after_loading|in weight_loader|weights_iterator|initialize_model"
    r"|models/\w+\.py\", line \d+, in __init__|layers/[\w/]+\.py\", line \d+, in (?:__init__|create_weights)"
)
_FORWARD = re.compile(r"in _?forward\w*$|in (?:execute_model|_dummy_run|generate\w*)$", re.MULTILINE)
_DRAFT = re.compile(
    r"eagle_worker|eagle_draft|draft_worker|/speculative/|spec_decode|eagle3?\.py|nextn|EAGLEWorker|EagleDraft"
    r"|DraftWorker|multi_layer_eagle|medusa|mlp_speculator"
)
_STAGE_OF_PHASE: dict[str, Stage] = {
    "load_weights": "load", "load_draft_weights": "load", "kv_cache": "kv", "draft_kv_cache": "kv",
    "autotune": "capture", "warmup": "serve",
}  # fmt: skip

Text: TypeAlias = "str | Callable[[Case], str]"


@dataclass(frozen=True)
class Rule:
    """`pattern` is searched in what an incident says, `frames` in the code that it came through.

    `on` restricts the rule to tracebacks or to single lines; a single line that matches counts as `weight`.
    Texts are templates over the named groups of the match and `Case.words`, or functions of the case.
    """

    category: Text
    pattern: re.Pattern[str]
    summary: Text
    cause: Text
    fix: Text
    frames: re.Pattern[str] | None = None
    needs: Callable[[Case], bool] | None = None
    on: Literal["both", "block", "line"] = "both"
    weight: Literal["fatal", "weak", "mild"] = "weak"
    standing: Standing = "primary"
    alive: bool = False
    """The server lives on."""


@dataclass
class Case:
    """A match of a rule with an incident."""

    rule: Rule
    incident: Incident
    found: re.Match[str]
    line: int
    known: Known
    extra: list[tuple[int, str]] = field(default_factory=list)

    def word(self, name: str) -> str:
        """A named group of the match, or its namesake in another alternative (`port2`); "" where none took part."""
        told = self.found.groupdict()
        if told.get(name) is None:
            name = next((one for one in told if told[one] and one.rstrip("23456789") == name), name)
        return (told.get(name) or "").strip()

    @cached_property
    def frames(self) -> str:
        return "\n".join((*self.incident.frames, *self.incident.code))

    @cached_property
    def text(self) -> str:
        return "\n".join(text for _, text in self.incident.texts)

    @cached_property
    def stage(self) -> Stage:
        """What the server was doing: the code tells it best, then the log's own phase."""
        return stage_of(self.incident, self.frames, self.text)

    @property
    def is_placed(self) -> bool:
        """Whether it is sure what the server was doing, for rules whose category depends on it."""
        return bool(self.stage) or not callable(self.rule.category)

    @property
    def is_draft(self) -> bool:
        return "draft" in self.incident.phase or is_of_draft(self.frames)

    def render(self, text: Text) -> str:
        if callable(text):
            return text(self)
        return _without_gaps(text.format_map(_Words(self))) if "{" in text else text


_GAP = re.compile(r"\0(\w+)\0")
_ASIDE_WITH_GAP = re.compile(r" ?\([^()]*\0[^()]*\)")
_COMMAND_WITH_GAP = re.compile(r": (?:kill|nvidia-smi [^;.]*) \0\w+\0")


def _without_gaps(text: str) -> str:
    """What nobody has told is left out with its brackets, or named by what it is."""
    if "\0" not in text:
        return text
    text = _COMMAND_WITH_GAP.sub("", _ASIDE_WITH_GAP.sub("", text))
    text = _GAP.sub(lambda found: _UNNAMED.get(found[1], ""), text)
    return re.sub(r"  +", " ", text).strip()


class _Words(dict[str, Any]):
    """Named groups first, then what is known, then a mark that something is not."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self._case = case

    def __missing__(self, name: str) -> str:
        told = self._case.word(name)
        if told:
            return told
        known = self._case.known
        if name.startswith("flag_"):
            return known.flag(name.removeprefix("flag_"))
        value = known.get(_NAMES.get(name, name))
        return str(value) if value is not None else f"\0{name}\0"


_NAMES = {
    "model": "model_path", "tp": "tp_size", "mem": "mem_fraction_static", "context": "context_length",
    "draft": "speculative_draft_model_path",
}  # fmt: skip


_UNNAMED = {"model": "this very model", "quantization": "the one of the checkpoint", "limit": "some", "arch": "named"}


def is_of_draft(frames: str) -> bool:
    """Whether code of speculative decoding is among the places."""
    return _DRAFT.search(frames) is not None


def stage_of(incident: Incident, frames: str, text: str) -> Stage:
    if _CAPTURE.search(frames) or "apture cuda graph failed" in text or "Capture CUDA graph failed" in text:
        return "capture"
    if "determine_num_available_blocks" in frames or "profile_run" in frames:
        return "kv"
    if _SERVE.search(frames):
        return "serve"
    if _KV.search(frames):
        return "kv"
    if _LOAD.search(frames):
        return "load"
    if incident.phase.startswith("capture"):
        return "capture"
    if incident.phase in _STAGE_OF_PHASE:
        return _STAGE_OF_PHASE[incident.phase]
    return "serve" if incident.was_ready or _FORWARD.search(frames) or "func=resume" in text else ""
