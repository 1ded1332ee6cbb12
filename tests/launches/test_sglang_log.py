"""What the engine makes of recorded starts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from tests.launches.reading import EAGLE_PHASES, elapsed, feed, only, phases, read_log

from sitrepd.launches.engines.base import (
    PHASE,
    PHASE_ORDER,
    Compiled,
    Described,
    Failed,
    Listening,
    PhaseBegan,
    PhaseProgress,
    PortTaken,
    Ready,
    Settings,
    Sized,
    Stopping,
    Throughput,
    Timings,
    Warned,
    current_phase,
)
from sitrepd.launches.engines.sglang import SglangEngine

GIB = 1024**3


def _sizes(events: list[object], name: str) -> dict[str, int]:
    return {event.phase: event.value for event in events if isinstance(event, Sized) and event.name == name}


def test_eagle3_start_of_0_5_16() -> None:
    events = read_log("h200-0.5.16-eagle3-s3")

    names = EAGLE_PHASES
    assert phases(events) == [sign + name for name in names for sign in "+-"]
    assert elapsed(events) == dict.fromkeys(names) | {
        "dist_init": 0.19,
        "load_weights": 2.47,
        "load_draft_weights": 0.12,
        "capture_prefill": 9.69,
        "capture_verify": 1.33,
        "capture_draft_prefill": 1.29,
        "capture_draft_decode": 4.47,
        "capture_draft_extend": 1.11,
    }
    assert not only(events, Failed)


def test_sizes_of_the_eagle3_start() -> None:
    events = read_log("h200-0.5.16-eagle3-s3")

    assert _sizes(events, "kv_tokens") == {"kv_cache": 433952, "draft_kv_cache": 433952}
    assert _sizes(events, "kv_cache_bytes") == {
        "kv_cache": 2 * round(26.49 * GIB),
        "draft_kv_cache": 2 * round(0.83 * GIB),
    }
    assert _sizes(events, "weight_bytes") == {
        "load_weights": round(13.50 * GIB),
        "load_draft_weights": round(1.36 * GIB),
    }
    assert _sizes(events, "graph_bytes")["capture_draft_prefill"] == round(1.61 * GIB)
    assert _sizes(events, "available_bytes")[""] == round(66.30 * GIB)
    assert _sizes(events, "max_running_requests")[""] == 48
    assert _sizes(events, "context_len")[""] == 32768
    assert [(e.role, e.name, e.value) for e in only(events, Described)] == [
        ("target", "model_class", "LlamaForCausalLM"),
        ("draft", "model_class", "LlamaForCausalLMEagle3"),
        ("target", "kv_dtype", "torch.bfloat16"),
        ("draft", "kv_dtype", "torch.bfloat16"),
    ]


def test_settings_are_those_in_effect() -> None:
    settings = only(read_log("h200-0.5.16-eagle3-s3"), Settings)[0].values

    assert (settings["speculative_algorithm"], settings["speculative_num_steps"]) == ("EAGLE3", 3)
    assert settings["speculative_num_draft_tokens"] == 4
    assert settings["cuda_graph_config"]["decode"]["bs"] == [1, 2, 3, 4, 5, 6, 7, 8]
    assert settings["port"] == 8000
    assert settings["trust_remote_code"] is True
    assert settings["tokenizer_path"] == "/models/target"
    assert len(settings) == 445


def test_cold_start_of_0_5_16() -> None:
    events = read_log("h200-0.5.16-base-cold-jit")

    assert _sizes(events, "kv_tokens") == {"kv_cache": 458681}
    assert _sizes(events, "kv_cache_bytes") == {"kv_cache": 56 * GIB}
    assert elapsed(events)["capture_prefill"] == 58.77
    assert phases(events)[-6:] == [
        "+capture_decode",
        "-capture_decode",
        "+http_start",
        "-http_start",
        "+warmup",
        "-warmup",
    ]
    ready = only(events, Ready)
    assert [(event.at, event.suspect) for event in ready] == [(datetime(2026, 12, 1, 1, 11, 46, tzinfo=UTC), False)]
    assert [(e.pid, e.host, e.port) for e in only(events, Listening)] == [(991, "", None), (None, "127.0.0.1", 8000)]


def test_progress_of_the_cold_start() -> None:
    progress = only(read_log("h200-0.5.16-base-cold-jit"), PhaseProgress)

    shards = [(event.done, event.total, event.unit) for event in progress if event.phase == "load_weights"]
    assert shards == [(done, 8, "shards") for done in range(9)]
    graphs = [event for event in progress if event.phase == "capture_prefill"]
    assert (graphs[0].done, graphs[0].total, graphs[-1].done) == (0, 58, 58)
    assert graphs[-1].detail == "num_tokens=4"
    stuck = next(event for event in graphs if event.done == 1)
    assert stuck.elapsed_s == 50.0  # the first graph waits for a compiler
    assert stuck.at == datetime(2026, 12, 1, 1, 11, 26, tzinfo=UTC)
    assert [event.total for event in progress if event.phase == "capture_decode"][-1] == 4


def test_start_of_0_5_23() -> None:
    events = read_log("cpu-0.5.23-success")

    names = ["starting", "dist_init", "load_weights", "kv_cache", "http_start", "warmup"]
    assert phases(events) == [sign + name for name in names for sign in "+-"]
    assert elapsed(events)["load_weights"] == 0.06
    timings = only(events, Timings)[0].seconds
    assert (timings["kv_cache_allocation"], timings["tokenizer_e2e"], timings["cuda_graph.draft_extend"]) == (
        0.51,
        31.72,
        0,
    )
    settings = only(events, Settings)[0].values
    assert settings["cuda_graph_config"]["prefill"]["backend"] == "disabled"
    assert settings["mem_fraction_static"] == 0.3
    assert [event.total for event in only(events, PhaseProgress)] == [10, 10]
    assert {event.what for event in only(events, Warned)} == {"graphs_disabled"}
    assert len(only(events, Stopping)) == 1
    assert not only(events, Failed)  # children that die after SIGTERM have not failed


def test_start_of_two_ranks() -> None:
    """A phase begins with the first rank and ends with the last, so that it may overlap with the next."""
    events = read_log("cpu-0.5.23-tp2-success")

    names = ["starting", "dist_init", "load_weights", "kv_cache", "http_start", "warmup"]
    assert [told for told in phases(events) if told[0] == "+"] == [f"+{name}" for name in names]
    assert [told for told in phases(events) if told[0] == "-"] == [f"-{name}" for name in names]
    assert elapsed(events)["load_weights"] == 0.33  # the slower of both
    assert [event.total for event in only(events, PhaseProgress)] == [4, 4]
    tokens = {event.rank: event.value for event in only(events, Sized) if event.name == "kv_tokens"}
    assert tokens == {"TP0": 8192, "TP1": 8192}
    assert {event.rank for event in only(events, Throughput)} == {"TP0"}
    assert not only(events, Failed)


def test_what_sglang_changed_is_a_warning() -> None:
    events = read_log("cpu-0.5.23-eagle3-fail")

    warned = {event.what: event.text for event in only(events, Warned)}
    assert set(warned) == {
        "graphs_disabled",
        "max_running_requests_reset",
        "overlap_schedule_off",
        "draft_tokens_adjusted",
    }
    assert "reset to 48" in warned["max_running_requests_reset"]
    assert only(events, Settings)[0].values["speculative_num_draft_tokens"] == 4
    deprecated = only(read_log("h200-0.5.16-base-cold-jit"), Warned)
    assert [(event.what, "\x1b" in event.text) for event in deprecated] == [("deprecated_flag", False)]


def test_taken_port_makes_the_ready_line_suspect() -> None:
    events = read_log("cpu-0.5.23-port-in-use")

    assert [event.port for event in only(events, PortTaken)] == [31777]
    assert [event.suspect for event in only(events, Ready)] == [True]


def test_api_keys_do_not_come_through() -> None:
    events = read_log("cpu-0.5.23-api-key")

    settings = only(events, Settings)[0].values
    assert "api_key" not in settings
    assert settings["admin_api_key"] is None
    assert settings["served_model_name"] == "/models/tiny"


def test_throughput_lines() -> None:
    decode = [event for event in only(read_log("h200-0.5.16-eagle3-s3"), Throughput) if event.batch == "decode"]
    assert (decode[0].gen_tok_s, decode[0].accept_len, decode[0].accept_rate) == (1.55, 1.0, 0.0)
    assert (decode[1].running, decode[1].queued, decode[1].tokens, decode[1].graph) == (4, 0, 462, True)

    prefill = [event for event in only(read_log("cpu-0.5.23-api-key"), Throughput) if event.batch == "prefill"]
    assert prefill[0].new_tokens == 3
    assert prefill[0].cached_tokens == 0
    assert prefill[0].other == {"#new-seq": 1.0, "#pending-token": 0.0}
    assert (prefill[0].input_tok_s, prefill[0].gen_tok_s, prefill[0].graph) == (1.4, None, False)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            "Decode batch [17], #running-req: 2, #full token: 9, full token usage: 0.10, #swa token: 3, "
            "swa token usage: 0.2, accept len: 2.81, accept rate: 0.60, cap len: 3.00, npu graph: True, "
            "gen throughput (token/s): 94.0, #queue-req: 5",
            {
                "running": 2,
                "tokens": 9,
                "token_usage": 0.1,
                "accept_len": 2.81,
                "graph": True,
                "gen_tok_s": 94.0,
                "queued": 5,
            },
        ),
        (
            "Decode batch. #running-req: 1, #token: 71, token usage: 0.00, gen throughput (token/s): 4.46, "
            "#queue-req: 0",
            {"running": 1, "tokens": 71, "gen_tok_s": 4.46, "accept_len": None, "graph": None},
        ),
        (
            "Prefill batch. #new-seq: 1, #new-token: 7, #cached-token: 2, cache hit rate: 12.5%, token usage: 0.0, "
            "#running-req: 0, #queue-req: 0",
            {"new_tokens": 7, "cached_tokens": 2, "running": 0},
        ),
    ],
)
def test_throughput_of_other_versions(line: str, wanted: dict[str, object]) -> None:
    event = only(feed([f"[2026-12-01 01:00:00 TP0] {line}"]), Throughput)[0]
    assert {name: getattr(event, name) for name in wanted} == wanted
    assert event.rank == "TP0"


def test_every_phase_has_a_readiness_state() -> None:
    for name in ("h200-0.5.16-eagle3-s3", "cpu-0.5.23-success"):
        began = [event.phase for event in only(read_log(name), PhaseBegan)]
        assert began == sorted(began, key=PHASE_ORDER.__getitem__)
        states = [PHASE[phase].state for phase in began]
        assert states == sorted(states, key=["starting", "loading", "capturing", "warming"].index)
    slowest = current_phase(["capture_prefill", "load_weights"])
    assert slowest is not None
    assert slowest.state == "loading"
    assert current_phase([]) is None


def test_times_are_read_in_the_zone_of_the_log() -> None:
    line = "[2026-12-01 01:00:00.250] Init parallel begin."
    plus_two = timezone(timedelta(hours=2))

    events = feed([line], SglangEngine().parser(tz=plus_two))
    assert {event.at for event in events} == {datetime(2026, 11, 30, 23, 0, 0, 250000, tzinfo=UTC)}
    local = feed([line], SglangEngine().parser())
    assert local[0].at == datetime(2026, 12, 1, 1, 0, 0, 250000).astimezone(UTC)


def test_a_silent_compilation_is_a_phase() -> None:
    """The bar of the first graphs stood for 50 s before it moved, and then took 7 s for 57 of them."""
    events = read_log("h200-0.5.16-base-cold-jit")
    assert "compile_kernels" in elapsed(events)
    assert elapsed(events)["compile_kernels"] == 50.0
    assert [(event.what, event.seconds) for event in only(events, Compiled)] == [
        ("first graph of capture_prefill", 50.0)
    ]
    assert "compile_kernels" not in elapsed(read_log("h200-0.5.16-eagle3-s3"))
