"""What makes two launches the same attempt: model, flags that matter and environment that matters."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sitrepd.launches.engines.base import CommandFacts

_ALIASES = {
    "tp": "tp_size", "tensor_parallel_size": "tp_size", "dp": "dp_size", "data_parallel_size": "dp_size",
    "pp": "pp_size", "pipeline_parallel_size": "pp_size", "ep": "ep_size", "expert_parallel_size": "ep_size",
    "model": "model_path", "speculative_algo": "speculative_algorithm",
    "speculative_draft_model": "speculative_draft_model_path",
}  # fmt: skip
# What decides where a server is reached, what it prints and what it is called, but not whether it starts.
_IDLE = frozenset({
    "host", "port", "api_key", "admin_api_key", "served_model_name", "log_level", "log_level_http", "log_requests",
    "log_requests_level", "nccl_port", "dist_init_addr", "watchdog_timeout", "enable_metrics", "crash_dump_folder",
    "decode_log_interval", "show_time_cost", "random_seed", "file_storage_path", "enable_trace", "otlp_traces_endpoint",
    "fastapi_root_path", "skip_server_warmup", "warmups", "tool_call_parser", "reasoning_parser", "chat_template",
    "enable_cache_report", "dist_timeout", "model_path",
})  # fmt: skip
_ENV = re.compile(
    r"(?:SGLANG_|SGL_|VLLM_|NCCL_|CUDA_|PYTORCH_|TORCH_|TORCHINDUCTOR_|TORCHDYNAMO_|FLASHINFER_|TRITON_|NVSHMEM_|UCX_|GLOO_"
    r"|DEEPEP_|DG_|HF_HUB_OFFLINE$|OMP_NUM_THREADS$|LD_PRELOAD$)"
)


@dataclass(frozen=True)
class Configuration:
    """`env` is None where a launch's environment is not known beyond what its command sets."""

    model: str | None
    flags: Mapping[str, str]
    told_env: Mapping[str, str]
    env: Mapping[str, str] | None = None

    def is_same(self, other: Configuration) -> bool:
        if (self.model, self.flags) != (other.model, other.flags):
            return False
        if self.env is not None and other.env is not None:
            return self.env == other.env
        return self.told_env == other.told_env


def configuration(
    facts: CommandFacts, told_env: Mapping[str, str], env: Mapping[str, str] | None = None
) -> Configuration:
    flags = {_ALIASES.get(name, name): _value(value) for name, value in facts.flags.items()}
    kept = {name: value for name, value in flags.items() if name not in _IDLE}
    defaults = {"tp_size": "1", "dp_size": "1", "pp_size": "1", "ep_size": "1", "trust_remote_code": None}
    kept = {name: value for name, value in kept.items() if defaults.get(name, "") != value}
    return Configuration(_path(facts.model_path), kept, matters(told_env), None if env is None else matters(env))


def matters(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if _ENV.match(name)}


def _path(told: str | None) -> str | None:
    return os.path.realpath(told) if told and told.startswith("/") else told


def _value(told: str | bool | Sequence[str]) -> str:
    """0.90 is 0.9, and a path is what it leads to."""
    if isinstance(told, bool):
        return "true"
    if not isinstance(told, str):
        return " ".join(_value(one) for one in told)
    try:
        return f"{float(told):g}" if re.fullmatch(r"-?\d+(?:\.\d+)?", told) and len(told) < 12 else str(_path(told))
    except ValueError:
        return told
