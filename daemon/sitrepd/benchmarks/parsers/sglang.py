"""Results of `sglang.bench_serving` and of the Rust client in its wheel, 0.4.6 to 0.5.23."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from sitrepd.benchmarks.labels import ALGORITHM, config_label
from sitrepd.benchmarks.metrics import Metric, metric
from sitrepd.benchmarks.parsers.result import BenchmarkFileError, ParsedBenchmark, ServerFacts
from sitrepd.redact import redact_command, redact_json, redact_text

_REQUIRED = ("backend", "completed", "duration", "output_throughput")
_WORKLOAD = frozenset(
    (
        "backend", "protocol", "dataset_name", "request_rate", "max_concurrency", "sharegpt_output_len",
        "random_input_len", "random_output_len", "random_range_ratio", "goodput_slos_ms",
    )
)  # fmt: skip
# One entry a request, with `--output-details`; the texts among them are prompts of somebody.
_DETAILS = frozenset(
    (
        "input_lens",
        "output_lens",
        "ttfts",
        "itls",
        "generated_texts",
        "errors",
        "cached_tokens",
        "cached_tokens_details",
    )
)
_NESTED = frozenset(("cache_report", "slo_attainment_by_metric"))
# Settings that decide what is measured, always kept where the server tells them.
_SETTINGS = (
    ALGORITHM, "speculative_num_steps", "speculative_eagle_topk", "speculative_num_draft_tokens",
    "speculative_draft_model_path", "tp_size", "mem_fraction_static", "attention_backend", "sampling_backend",
    "kv_cache_dtype", "dtype", "chunked_prefill_size", "max_running_requests", "num_continuous_decode_steps",
    "page_size",
)  # fmt: skip
# Settings kept only where they are not at these values, which change nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "pp_size": (1,), "dp_size": (1,), "ep_size": (1,), "nnodes": (1,), "dcp_size": (1,), "quantization": (None,),
    "context_length": (None,), "max_total_tokens": (None,), "load_format": ("auto",), "device": ("cuda",),
    "schedule_policy": ("fcfs",), "schedule_conservativeness": (1,), "stream_interval": (1,),
    "decode_attention_backend": (None,), "prefill_attention_backend": (None,), "moe_runner_backend": ("auto", None),
    "moe_a2a_backend": ("none", None), "cuda_graph_max_bs": (None,), "cuda_graph_max_bs_decode": (None,),
    "cuda_graph_backend_decode": (None,), "cuda_graph_backend_prefill": (None,), "json_model_override_args": ("{}",),
    "enable_dp_attention": (False,), "enable_torch_compile": (False,), "enable_mixed_chunk": (False,),
    "enable_two_batch_overlap": (False,), "enable_hierarchical_cache": (False,), "enable_mscclpp": (False,),
    "enable_flashinfer_allreduce_fusion": (False,), "disable_radix_cache": (False,), "disable_cuda_graph": (False,),
    "disable_custom_all_reduce": (False,), "disable_overlap_schedule": (False,), "cpu_offload_gb": (0,),
}  # fmt: skip
_SPECULATIVE_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "speculative_accept_threshold_single": (1,), "speculative_accept_threshold_acc": (1,),
    "speculative_attention_mode": ("prefill",), "speculative_draft_model_revision": ("main", None),
    "speculative_draft_attention_backend": (None,), "speculative_draft_model_quantization": (None,),
    "speculative_draft_kv_cache_dtype": (None,), "speculative_draft_window_size": (None,),
    "speculative_token_map": (None,), "speculative_adaptive": (False, None),
    "speculative_use_rejection_sampling": (False, None), "speculative_use_block_verification": (False, None),
}  # fmt: skip
_RANGE = Decimal("1e300")


def is_bench_serving(document: Mapping[str, Any]) -> bool:
    """Whether the object is a result of bench_serving: it has the keys that all its versions write."""
    return all(key in document for key in _REQUIRED)


def parse_bench_serving(document: Mapping[str, Any], data: bytes, filename: str, line: int) -> ParsedBenchmark:
    """One line, its numbers as Decimal; raises BenchmarkFileError where it measured nothing or a value is none."""
    info = document.get("server_info")
    server = redact_json(info) if isinstance(info, Mapping) else {}
    config = server_config(server)
    metrics, unmeasured = _metrics(document, filename, line)
    tag = document.get("tag")
    return ParsedBenchmark(
        tool="sglang.benchmark.rust_client" if "protocol" in document else "sglang.bench_serving",
        name=redact_text(tag) if isinstance(tag, str) and tag else config_label(config) or PurePath(filename).stem,
        config=config,
        workload=_workload(document),
        metrics=metrics,
        notes=tuple(_notes(document, server, unmeasured)),
        server=_server_facts(server),
        digest=hashlib.sha256(data).hexdigest(),
        line=line,
    )


def _metrics(document: Mapping[str, Any], filename: str, line: int) -> tuple[tuple[Metric, ...], list[str]]:
    """The finite metrics, and the names of those that are NaN or infinite."""
    metrics: list[Metric] = []
    unmeasured: list[str] = []
    for name, told in _measured(document):
        value = _number(told)
        if value is None or (value.is_finite() and not _possible(name, value)):
            wrong = f"{name} is {told!s:.40}, which it cannot be"
            raise BenchmarkFileError(filename, line, wrong, f"{name} as bench_serving writes it, a number from 0 on")
        if name == "completed" and value == 0:
            raise BenchmarkFileError(
                filename, line, "no request was completed (completed is 0), so nothing was measured",
                "a run whose requests were answered; its own output tells why they were not",
            )  # fmt: skip
        if value.is_finite():
            metrics.append(metric(name, value))
        elif name in _REQUIRED:
            raise BenchmarkFileError(filename, line, f"{name} is {value}", "a finite number")
        else:
            unmeasured.append(name)
    return tuple(metrics), unmeasured


def _measured(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names and values of all that is measured; of a field that these versions do not write, if it is a number."""
    for name, value in document.items():
        if name in _NESTED and isinstance(value, Mapping):
            yield from ((f"{name}.{part}", v) for part, v in value.items() if isinstance(v, Decimal))
        elif value is None or name in _WORKLOAD or name in _DETAILS or name in ("tag", "server_info"):
            continue
        elif _is_metric(name) or isinstance(value, Decimal):
            yield name, value
    errors = document.get("errors")
    if isinstance(errors, list):
        yield "failed", Decimal(sum(bool(error) for error in errors))


def _possible(name: str, value: Decimal) -> bool:
    return abs(value) <= _RANGE and (value >= 0 or not _is_metric(name))


def _number(value: Any) -> Decimal | None:
    if isinstance(value, Decimal):
        return value
    return Decimal(value) if isinstance(value, str) and value.lower() in ("inf", "-inf", "nan", "infinity") else None


def _workload(document: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked of the server; an unlimited request rate is "inf" whoever wrote it."""
    workload = {}
    for name, value in document.items():
        unknown_text = isinstance(value, str) and name != "tag" and _number(value) is None and not _is_metric(name)
        if value is not None and (name in _WORKLOAD or unknown_text):
            number = _number(value)
            infinite = number is not None and not number.is_finite()
            workload[name] = "inf" if infinite else _plain(redact_json(value))
    return workload


def _is_metric(name: str) -> bool:
    return name.endswith(("_ms", "_throughput")) or name in _REQUIRED[1:]


def server_config(server: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the server that decide what is measured, as it resolved them, and its version."""
    config = {key: _plain(server[key]) for key in _SETTINGS if key in server}
    if config.get(ALGORITHM, "") is None:
        config = {key: value for key, value in config.items() if key == ALGORITHM or not key.startswith("speculative_")}
        neutral = _NEUTRAL
    else:
        neutral = _NEUTRAL | _SPECULATIVE_NEUTRAL
    config |= {k: _plain(server[k]) for k, values in neutral.items() if k in server and server[k] not in values}
    return config | ({"sglang_version": server["version"]} if "version" in server else {})


def _server_facts(server: Mapping[str, Any]) -> ServerFacts:
    def text(key: str) -> str | None:
        value = server.get(key)
        return value if isinstance(value, str) and value else None

    def whole(key: str) -> int | None:
        value = server.get(key)
        return int(value) if isinstance(value, Decimal) and value == value.to_integral_value() else None

    command = text("launch_command")
    return ServerFacts(
        host=text("host"),
        port=whole("port"),
        model_path=text("model_path"),
        draft_model_path=text("speculative_draft_model_path"),
        version=text("version"),
        random_seed=whole("random_seed"),
        launch_command=redact_command(command) if command else None,
    )


def _notes(document: Mapping[str, Any], server: Mapping[str, Any], unmeasured: list[str]) -> Iterator[str]:
    if document.get("accept_length") is not None:
        yield "accept_length is the average since the server started, not of this run."
    if unmeasured:
        yield f"Not measured (NaN or infinite in the file): {', '.join(unmeasured)}."
    if not server:
        yield "The file does not say which settings the server had."
    errors = document.get("errors")
    failed = [error for error in errors if error] if isinstance(errors, list) else []
    if failed:
        first = redact_text(str(failed[0]))[:200]
        yield f"{len(failed)} of {len(errors or ())} requests failed, the first with: {first}"


def _plain(value: Any) -> Any:
    """The value with int and float in place of Decimal, for JSON."""
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value) > _RANGE:
            return str(value)
        return int(value) if value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value
