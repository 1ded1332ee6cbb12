"""What is known of the launch whose log it is: from its command, from the settings that the log prints."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sitrepd.launches.engines import _flags
from sitrepd.launches.engines._settings import parse_server_args
from sitrepd.launches.engines.base import CommandFacts
from sitrepd.redact import redact_argv

_COMMAND = re.compile(
    r"(?:python[\d.]*(?: -\w+)* -m sglang\.launch_server|sglang serve|vllm serve"
    r"|python[\d.]*(?: -\w+)* (?:-m vllm\.entrypoints\.[\w.]+|\S*\bapi_server\.py)) +(?P<rest>-.*|\S+ +-.*)"
)
_EXAMPLE = re.compile(r"<[a-z][\w-]*>|\[options|\[OPTIONS|\{[a-z_]+\}")
"""Words of a usage, as SGLang prints one at each start by its module."""
_TRACED = re.compile(r"\+ .*--model.*--(?:mem-fraction|gpu-memory-utilization)|\+ .*launch_server .*--model")
_HUB = re.compile(r"https://(?:huggingface\.co|hf-mirror\.com)/(?P<repo>[\w.-]+/[\w.-]+)/resolve/")
_VLLM_ARGS = re.compile(r"non-default args: (\{.*\})|args: Namespace\((.*)\)")
_VLLM_CONFIG = re.compile(r"Initializing an? (?:V1 )?LLM engine .*?config: (.*)")
_VLLM_NAMES = {
    "model": "model_path", "model_tag": "model_path", "tensor_parallel_size": "tp_size",
    "gpu_memory_utilization": "mem_fraction_static", "max_model_len": "context_length", "max_seq_len": "context_length",
}  # fmt: skip
_WANTED = frozenset(
    {
        "model_path", "tp_size", "dp_size", "pp_size", "ep_size", "mem_fraction_static", "context_length",
        "port", "host",
        "nccl_port", "dist_init_addr", "quantization", "speculative_algorithm", "speculative_draft_model_path",
        "attention_backend", "cuda_graph_max_bs", "cuda_graph_max_bs_decode", "max_running_requests",
        "watchdog_timeout",
        "chunked_prefill_size", "kv_cache_dtype", "trust_remote_code", "load_format", "enable_torch_compile",
        "base_gpu_id", "nnodes", "node_rank", "speculative_num_steps", "speculative_num_draft_tokens",
    }
)  # fmt: skip
_SGLANG = re.compile(r"sglang|server_args=|sgl_kernel|hit an exception: Trace")
_VLLM = re.compile(r"\bvllm[./\\]|vLLM|EngineCore|VllmWorker")


@dataclass
class Known:
    """`settings` by SGLang's names, whichever engine it is; what was told by the caller goes before what is read."""

    facts: CommandFacts | None = None
    engine: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    capacity_gib: float | None = None

    def learn(self, text: str) -> None:
        """Take what a line tells of the command or of the settings."""
        if not self.engine:
            self._recognise(text)
        if text.startswith("server_args="):
            self.engine = "sglang"
            self._take(parse_server_args(text.partition("=")[2]))
        elif "args: " in text or "engine (" in text:
            self._learn_vllm(text)
        elif ("sglang" in text or "vllm" in text or "api_server.py" in text) and len(text) < 8000:
            found = _COMMAND.search(text)
            if found and not _EXAMPLE.search(found["rest"]):
                flags, _ = _flags.parse_flags(redact_argv(_flags.words_of(found["rest"].split())))
                self._take(flags)

        if "/resolve/" in text and (hub := _HUB.search(text)):
            self.settings.setdefault("model_path", hub["repo"])

    def _recognise(self, text: str) -> None:
        if _SGLANG.search(text):
            self.engine = "sglang"
        elif _VLLM.search(text):
            self.engine = "vllm"

    def _learn_vllm(self, text: str) -> None:
        found = _VLLM_ARGS.search(text) or _VLLM_CONFIG.search(text)
        if found is None:
            return
        body = next(group for group in found.groups() if group)
        self.engine = "vllm"
        self._take(parse_server_args(body if body.startswith("{") else f"({body})"))

    def _take(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            name = _VLLM_NAMES.get(name, {"tp": "tp_size", "dp": "dp_size", "model": "model_path"}.get(name, name))
            if name in _WANTED and value is not None:
                self.settings[name] = value

    def of_next_run(self, text: str) -> Known:
        """What is known of the run that a shell's trace begins here: the sizes of the one before are not its own."""
        flags, _ = _flags.parse_flags(redact_argv(_flags.words_of(text[2:].split())))
        new = Known(self.facts, self.engine, capacity_gib=self.capacity_gib)
        new._take(flags)
        if flags.get("mem_fraction") is not None:
            new.settings["mem_fraction_static"] = flags["mem_fraction"]
        return new

    def get(self, name: str) -> Any:
        """None where nothing tells it."""
        told = self._told(name)
        return told if told is not None else self.settings.get(name)

    def _told(self, name: str) -> Any:
        if self.facts is None:
            return None
        flags = self.facts.flags
        names = {
            "mem_fraction_static": self.facts.mem_fraction,
            "speculative_draft_model_path": self.facts.draft_model_path,
        }
        fields = {one.name for one in dataclasses.fields(self.facts)}
        value = names.get(name) or (getattr(self.facts, name) if name in fields else None) or flags.get(name)
        return None if value is True or value == [] else value

    @property
    def is_vllm(self) -> bool:
        return self.engine == "vllm" or (self.facts is not None and self.facts.engine == "vllm")

    def flag(self, name: str) -> str:
        """How this engine calls a setting on its command line."""
        if self.is_vllm:
            return {
                "mem": "--gpu-memory-utilization", "context": "--max-model-len", "tp": "--tensor-parallel-size",
                "eager": "--enforce-eager", "running": "--max-num-seqs", "graph_bs": "--max-num-seqs",
                "prefill": "--max-num-batched-tokens", "model": "--model", "no_graph": "--enforce-eager",
            }[name]  # fmt: skip
        newer = "cuda_graph_max_bs_decode" in self.settings
        return {
            "mem": "--mem-fraction-static", "context": "--context-length", "tp": "--tp-size",
            "running": "--max-running-requests", "prefill": "--chunked-prefill-size", "model": "--model-path",
            "graph_bs": "--cuda-graph-max-bs-decode" if newer else "--cuda-graph-max-bs",
            "no_graph": "--cuda-graph-backend-decode disabled" if newer else "--disable-cuda-graph",
        }[name]  # fmt: skip


def begins_run(text: str) -> bool:
    """Whether a shell that traces its commands starts another run here."""
    return text.startswith("+ ") and len(text) < 8000 and _TRACED.match(text) is not None
