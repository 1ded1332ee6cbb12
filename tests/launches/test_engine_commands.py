"""Which commands are whose, and what they ask for."""

from __future__ import annotations

import shlex

import pytest

from sitrepd.launches.engines import engine_for, engine_named
from sitrepd.launches.engines.generic import GenericEngine
from sitrepd.launches.engines.sglang import SglangEngine

LAUNCH = (
    "python3 -m sglang.launch_server --model-path /models/kimi --speculative-algorithm EAGLE3 "
    "--speculative-draft-model-path /models/draft --speculative-num-steps 3 --speculative-eagle-topk=1 "
    "--speculative-num-draft-tokens 4 --tp 8 --host 0.0.0.0 --port 8000 --mem-fraction-static 0.94 "
    "--trust-remote-code --served-model-name kimi --cuda-graph-bs-decode 1 2 4 8 --api-key abcdefgh12345678"
)


@pytest.mark.parametrize(
    "command",
    [
        LAUNCH,
        "/opt/venv/bin/python -u -m sglang.launch_server --model m",
        "sglang serve --model-path m",
        "/opt/venv/bin/sglang serve m",
        "python -m sglang.cli.main serve m",
        "nohup python -m sglang.launch_server --model m",
        "env CUDA_VISIBLE_DEVICES=0,1 python -m sglang.launch_server --model m",
        "numactl --cpunodebind=0 --membind=0 python3.12 -m sglang.launch_server --model m",
        "python /opt/venv/lib/python3.12/site-packages/sglang/launch_server.py --model m",
        "bash -c 'source /opt/venv/bin/activate && exec python -m sglang.launch_server --model m > log 2>&1'",
    ],
)
def test_commands_of_sglang(command: str) -> None:
    argv = shlex.split(command)
    assert engine_for(argv).name == "sglang"
    facts = SglangEngine().describe(argv, {})
    assert facts.model_path in ("m", "/models/kimi")


@pytest.mark.parametrize(
    "command",
    [
        "grep sglang.launch_server /var/log/syslog",
        "python -m sglang.bench_serving --backend sglang",
        "lmdeploy serve m",
        "ray serve sglang",
        "sglang generate --model-path m",
        "bash -c 'echo \"unbalanced'",
        "",
    ],
)
def test_commands_of_others(command: str) -> None:
    argv = command.split()
    assert not SglangEngine().recognises(argv)
    assert engine_for(argv).name == "generic"


def test_facts_of_a_command() -> None:
    facts = SglangEngine().describe(shlex.split(LAUNCH), {"TZ": ":Europe/Rome"})

    assert (facts.model_path, facts.draft_model_path, facts.served_name) == ("/models/kimi", "/models/draft", "kimi")
    assert (facts.host, facts.port, facts.tp_size, facts.dp_size, facts.pp_size) == ("0.0.0.0", 8000, 8, 1, 1)
    assert facts.mem_fraction == 0.94
    assert facts.speculative == {
        "speculative_algorithm": "EAGLE3",
        "speculative_num_steps": 3,
        "speculative_eagle_topk": 1,
        "speculative_num_draft_tokens": 4,
    }
    assert facts.flags["trust_remote_code"] is True
    assert facts.flags["cuda_graph_bs_decode"] == ["1", "2", "4", "8"]
    assert facts.timezone == "Europe/Rome"


def test_api_key_is_known_but_not_kept() -> None:
    for form in ("--api-key abcdefgh12345678", "--api-key=abcdefgh12345678"):
        facts = SglangEngine().describe(f"python -m sglang.launch_server --model m {form}".split(), {})
        assert facts.has_api_key
        assert "abcdefgh12345678" not in repr(facts)
        assert "api_key" not in facts.flags


def test_defaults_and_what_is_not_said() -> None:
    facts = SglangEngine().describe(["python", "-m", "sglang.launch_server", "--tp-size"], {})
    assert (facts.host, facts.port, facts.tp_size) == ("127.0.0.1", 30000, 1)
    assert facts.model_path is None
    assert facts.speculative == {}
    assert not facts.has_api_key
    unresolved = SglangEngine().describe(["sglang", "serve", "m", "--port", "$PORT", "--tp", "eight"], {})
    assert (unresolved.port, unresolved.tp_size) == (None, 1)


def test_negative_numbers_and_repeated_flags() -> None:
    facts = SglangEngine().describe(shlex.split("sglang serve m --seed -1 --port 1 --port 2 -x --tp=2"), {})
    assert facts.flags == {"seed": "-1", "port": "2", "x": True, "tp": "2"}
    assert (facts.port, facts.tp_size) == (2, 2)


def test_flags_end_where_the_shell_goes_on() -> None:
    facts = SglangEngine().describe(["bash", "-c", "sglang serve --model m --tp 2 > log 2>&1 & echo started"], {})
    assert facts.flags == {"model": "m", "tp": "2"}


def test_how_sglang_is_asked_and_stopped() -> None:
    engine = SglangEngine()
    ready, health = engine.probes
    assert (ready.path, ready.disturbs, health.path, health.disturbs) == ("/ready", False, "/health", True)
    assert [ready.answer(status) for status in (200, 503, 404, 500)] == ["ready", "not_ready", "ask_next", "unknown"]
    assert health.timeout_s > 2  # it takes 1 to 2 s on a healthy server
    assert [(step.signal, step.target) for step in engine.stop_signals] == [("SIGTERM", "main"), ("SIGKILL", "group")]
    quiet = {"SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0"}
    assert engine.describe([], {}).health_generates
    assert not engine.describe([], quiet).health_generates


def test_generic_engine_of_a_command() -> None:
    engine = engine_for(["lmdeploy", "serve", "m", "--port", "9000"], ready_url="http://127.0.0.1:9000/health")
    assert isinstance(engine, GenericEngine)
    facts = engine.describe(["lmdeploy", "serve", "--model", "m", "--port=9000", "--tensor-parallel-size", "4"], {})
    assert (facts.engine, facts.model_path, facts.port, facts.tp_size, facts.host) == ("generic", "m", 9000, 4, None)
    probe = engine.probes[0]
    assert probe.path == "http://127.0.0.1:9000/health"
    assert [probe.answer(status) for status in (200, 503, 404)] == ["ready", "not_ready", "not_ready"]
    assert engine_for(["./server"]).probes == ()


def test_engines_by_name() -> None:
    assert engine_named("sglang").name == "sglang"
    assert engine_named("generic", ready_pattern="up").name == "generic"
    with pytest.raises(KeyError):
        engine_named("lmdeploy")
    with pytest.raises(ValueError, match="no regular expression"):
        engine_named("generic", ready_pattern="(")
