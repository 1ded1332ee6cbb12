"""The replay as its users meet it: a child process, its standard error and its port."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable

import pytest
from tests.demo.replaying import READY, RECORD, Replay
from tests.helpers import PATIENCE_S, wait_until

from sitrepd.demo import _start as played
from sitrepd.demo._args import parse
from sitrepd.demo._tape import Tape

pytestmark = pytest.mark.slow  # each test starts many processes

SHARD_BAR = re.compile(
    r"Multi-thread loading shards: +\d+% Completed \| \d+/(64|1) "
    r"\[\d\d:\d\d<(\?, \?it/s|\d\d:\d\d, +\d+\.\d\d(it/s|s/it))\] *"
)
CAPTURE_BAR = re.compile(
    r"(Capturing (batches \(bs=\d+|(prefill shape|num tokens) \(num_tokens=\d+) avail_mem=-?\d+\.\d\d GB\): )?"
    r" *\d+%\|[█▏▎▍▌▋▊▉ ]{10}\| \d+/\d+ \[\d\d:\d\d<(\?, \?it/s|\d\d:\d\d, +\d+\.\d\d(it/s|s/it))\] *"
)
GB = r"-?\d+\.\d\d GB"
CAPTURED = r"elapsed=\d+\.\d\d s, mem usage=\d+\.\d\d GB, avail mem=" + GB + r"\."
COMMON = [
    r"Max running requests is reset to 48 for speculative decoding\..*",
    r"Using default HuggingFace chat template with detected content format: openai",
    r"sglang is using nccl==.*",
    rf"Load weight begin\. avail mem={GB}",
    r"Load weight end\. elapsed=\d+\.\d\d s, type=(KimiK25ForConditionalGeneration, quant=compressed-tensors"
    rf"|LlamaForCausalLMEagle3), avail mem={GB}, mem usage={GB}\.",
    rf"KV Cache is allocated\. dtype: torch\.bfloat16, #tokens: \d+, (KV size: {GB}|K size: {GB}, V size: {GB})",
    rf"Memory pool end\. avail mem={GB}",
    rf"Capture (target|draft) prefill CUDA graph begin\. backend=breakable, num_tokens=\[[\d, ]+\], avail mem={GB}",
    rf"Capture (target|draft) prefill CUDA graph end\. {CAPTURED}",
    r"Capture draft (decode|extend) CUDA graph begin\. backend=full, num_tokens_per_req=\d, "
    rf"bs=\[[\d, ]+\], avail mem={GB}",
    rf"Capture draft (decode|extend) CUDA graph end\. {CAPTURED}",
    r"max_total_num_tokens=\d+, chunked_prefill_size=\d+, max_prefill_tokens=\d+, max_running_requests=\d+, "
    rf"context_len=\d+, available_gpu_mem={GB}",
    r"Tree cache initialized: .*",
    r"INFO:     (Started server process \[\d+\]|Waiting for application startup\.|Application startup complete\.)",
    r"INFO:     Uvicorn running on http://127\.0\.0\.1:\d+ \(Press CTRL\+C to quit\)",
    r'INFO:     127\.0\.0\.1:\d+ - "(GET|POST) /\S+ HTTP/1\.1" \d\d\d [A-Z][\w ]*',
    r"Prefill batch, #new-seq: 1, #new-token: \d+, .*, cuda graph: True, input throughput \(token/s\): \d+\.\d\d",
    re.escape(READY),
]
OLD = [
    r"server_args=ServerArgs\(model_path='.*\)",
    r"Init torch distributed begin\.",
    r"Init torch distributed ends\. elapsed=\d+\.\d\d s, mem usage=\d+\.\d\d GB",
    rf"Capture target (verify|decode) CUDA graph begin\. .*bs=\[[\d, ]+\], avail mem={GB}",
    rf"Capture target (verify|decode) CUDA graph end\. {CAPTURED}",
]
NEW = [
    r"server_args=\{'model_path': '.*\}",
    r"Init parallel begin\.",
    r"Init parallel ends\. elapsed=\d+\.\d\d s",
    r"Memory baseline taken\. mem usage=\d+\.\d\d GB",
    rf"Capture target (verify|decode) CUDA graph begin\. backend=full, num_tokens_per_req=\d, avail mem={GB}",
    rf"Capture target (verify|decode) CUDA graph end\. bs=\[[\d, ]+\], {CAPTURED}",
    r"Init Unified Radix Cache\. .*",
    r"Engine startup timings \(s\): load_weight=\d+\.\d\d, kv_cache_allocation=\d+\.\d\d, scheduler_e2e=\d+\.\d\d, "
    r"cuda_graph=\{prefill=\d+\.\d\d, decode=\d+\.\d\d, target_verify=\d+\.\d\d, draft_prefill=\d+\.\d\d, "
    r"draft_decode=\d+\.\d\d, draft_extend=\d+\.\d\d\}, tokenizer_e2e=\d+\.\d\d",
]


Start = Callable[..., Replay]


@pytest.mark.parametrize(("version", "own"), [("0.5.16", OLD), ("0.5.23", NEW)])
def test_every_line_has_the_form_of_that_version(start: Start, version: str, own: list[str]) -> None:
    replay = start("--engine-version", version)
    replay.wait_for(READY)

    lines = replay.lines()
    assert lines[0] == "Sitrep demo: replay of a start, no model is loaded"
    known = [re.compile(pattern) for pattern in COMMON + own]
    for line in filter(None, lines[1:]):
        record = RECORD.search(line)
        bar = line[: record.start()] if record else line
        assert not bar or SHARD_BAR.fullmatch(bar) or CAPTURE_BAR.fullmatch(bar), line
        assert record is None or any(pattern.fullmatch(record[3]) for pattern in known), line
    for pattern in own:
        assert any(re.fullmatch(pattern, message) for _, message in replay.messages()), pattern


def test_phases_come_in_the_recorded_order_on_eight_ranks(start: Start) -> None:
    replay = start()
    replay.wait_for(READY)

    messages = replay.messages()
    steps = [
        "Init parallel begin",
        "Load weight begin",
        "Load weight end. elapsed={}, type=KimiK25",
        "Load weight end. elapsed={}, type=LlamaForCausalLMEagle3",
        "KV Cache is allocated. {} KV size",
        "KV Cache is allocated. {} K size",
        "Capture target prefill CUDA graph end",
        "Capture target verify CUDA graph end",
        "Capture draft prefill CUDA graph end",
        "Capture draft decode CUDA graph end",
        "Capture draft extend CUDA graph end",
    ]
    at = 0
    for step in steps:
        pattern = re.escape(step).replace(re.escape("{}"), ".*?")
        found = [n for n, (_, message) in enumerate(messages) if n >= at and re.match(pattern, message)]
        assert {messages[n][0] for n in found} >= {f" TP{rank}" for rank in range(8)}, step
        at = found[0]
    rest = [message for _, message in messages[at:]]
    uvicorn = next(n for n, message in enumerate(rest) if "Uvicorn running" in message)
    warmed = next(n for n, message in enumerate(rest) if "POST /v1/chat/completions" in message)
    assert uvicorn < warmed < rest.index(READY)


def test_bars_are_glued_as_tqdm_leaves_them(start: Start) -> None:
    replay = start()
    replay.wait_for(READY)

    text = replay.text()
    assert re.search(r"avail mem=\d+\.\d\d GB\n\rMulti-thread loading shards:   0% Completed \| 0/64 ", text)
    assert re.search(r"0/64 \[00:00<\?, \?it/s\]\[\d{4}-", text), "a rank's record follows the bar without a newline"
    assert re.search(r"64/64 \[[^\]]+\] *\n\[", text)
    assert "\r  0%|          | 0/58 [00:00<?, ?it/s]\rCapturing " in text


def test_port_is_closed_while_loading_then_503_then_200(start: Start) -> None:
    replay = start(duration_s=20)
    replay.wait_for("Multi-thread loading shards")
    assert replay.status("/health") is None
    replay.process.terminate()

    replay = start(duration_s=4)
    wait_until(lambda: replay.status("/v1/models") is not None)
    assert READY not in replay.text()
    early = {path: replay.status(path) for path in ("/health", "/ready", "/v1/models", "/metrics", "/model_info")}
    assert early == {"/health": 503, "/ready": 503, "/v1/models": 200, "/metrics": 200, "/model_info": 200}
    replay.wait_for(READY)
    assert (replay.status("/health"), replay.status("/ready")) == (200, 200)


def test_ready_endpoint_is_unknown_to_the_older_version(start: Start) -> None:
    replay = start("--engine-version", "0.5.16")
    replay.wait_for(READY)
    assert replay.status("/ready") == 404
    assert replay.status("/nowhere") == 404


def test_server_info_shows_resolved_flags_and_acceptance_only_after_traffic(start: Start) -> None:
    flags = [
        "-m",
        "sglang.launch_server",
        "--model-path",
        "/shared/kimi",
        "--tp-size",
        "8",
        "--mem-fraction-static",
        "0.88",
    ]
    replay = start(*flags, "--host", "0.0.0.0", "--speculative-num-steps", "3", "--speculative-num-draft-tokens", "6")
    replay.wait_for(READY)

    info = json.loads(replay.ask("GET", "/server_info")[1])
    assert info["model_path"] == "/shared/kimi"
    assert info["mem_fraction_static"] == 0.88
    assert (info["speculative_num_steps"], info["speculative_num_draft_tokens"]) == (3, 4)
    assert (info["status"], info["version"], info["host"]) == ("ready", "0.5.23", "127.0.0.1")
    assert "avg_spec_accept_length" not in info["internal_states"][0]

    assert replay.ask("POST", "/generate", {"text": "hi"})[0] == 200
    info = json.loads(replay.ask("GET", "/server_info")[1])
    assert info["internal_states"][0]["avg_spec_accept_length"] == 1.0


def test_answers_say_that_they_are_a_replay(start: Start) -> None:
    replay = start()
    replay.wait_for(READY)

    generated = json.loads(replay.ask("POST", "/generate", {"text": "hi"})[1])
    assert "replay" in generated["text"]
    asked = {"messages": [{"role": "user", "content": "hi"}]}
    chat = json.loads(replay.ask("POST", "/v1/chat/completions", asked)[1])
    assert "replay" in chat["choices"][0]["message"]["content"]
    streamed = replay.ask("POST", "/v1/chat/completions", {**asked, "stream": True})[1].decode()
    assert '"delta"' in streamed
    assert streamed.endswith("data: [DONE]\n\n")
    assert replay.ask("POST", "/generate", ["not", "an", "object"])[0] == 400
    metrics = replay.ask("GET", "/metrics")[1].decode()
    assert 'sglang:generation_tokens_total{engine_type="unified"' in metrics


def test_skipped_seconds_are_not_waited_for(start: Start) -> None:
    replay = start("--skip", "599", "--cold", duration_s=600)
    replay.wait_for(READY)
    assert "Load weight begin" in replay.text()


class _Shares(Tape):
    """Does not wait, and notes until when it would have waited."""

    def until(self, share: float) -> None:
        self.told = [*getattr(self, "told", ()), share]


def test_cold_shards_take_as_long_as_each_other() -> None:
    def half_of_them(*flags: str) -> float:
        with open(os.devnull, "wb") as sink:
            tape = _Shares(1.0, 7, sink.fileno())
            played.Start(tape, parse(flags))._target_weights()
        first, half, last = (tape.told[n] for n in (0, 31, 63))
        return (half - first) / (last - first)

    assert half_of_them("--cold") == pytest.approx(0.5, abs=0.05)
    assert half_of_them() < 0.45


def test_without_steps_there_is_no_draft(start: Start) -> None:
    replay = start("--steps", "0", "--tp-size", "1")
    replay.wait_for(READY)

    text = replay.text()
    assert "Capture target decode CUDA graph begin. backend=full, num_tokens_per_req=1" in text
    assert "draft " not in text
    assert "TP0" not in text


def test_same_seed_plays_the_same_records(start: Start) -> None:
    def heard(replay: Replay) -> list[tuple[str, str]]:
        replay.wait_for(READY)
        return [
            (rank, re.sub(r"\d+\.\d\d s|=\d+\.\d\d|:\d{4,5}|'port': \d+|\[\d+\]", "#", m))
            for rank, m in replay.messages()
        ]

    first, again, other = start("--seed", "4"), start("--seed", "4"), start("--seed", "5")
    assert heard(first) == heard(again)
    assert heard(first) != heard(other)


def test_sigterm_ends_it_cleanly_when_ready(start: Start) -> None:
    replay = start()
    replay.wait_for(READY)

    assert replay.end() == 0
    said = [message for _, message in replay.messages()]
    assert said.index("SIGTERM received. signum=None frame=None. Draining requests and shutting down...") < next(
        n
        for n, message in enumerate(said)
        if message.startswith("Gracefully exiting... Remaining number of requests 0.")
    )
    assert said[-1] == f"INFO:     Finished server process [{replay.process.pid}]"
    assert replay.status("/health") is None


def test_sigterm_ends_it_while_loading(start: Start) -> None:
    replay = start(duration_s=60)
    replay.wait_for("Multi-thread loading shards")
    assert replay.end() == 0
    assert "Gracefully exiting..." in replay.text()


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("oom", "Exception: Capture cuda graph failed: CUDA out of memory."),
        ("missing-weights", "RuntimeError: model.safetensors.index.json references 1 shard file(s) missing"),
        ("draft-shape", "AssertionError: Attempted to load weight (torch.Size("),
    ],
)
def test_failures_end_by_sigkill_after_one_traceback_a_rank(start: Start, kind: str, error: str) -> None:
    replay = start("--fail", kind)
    assert replay.process.wait(PATIENCE_S) == -signal.SIGKILL

    assert replay.text().count("\n" + error) == 8
    said = [message for _, message in replay.messages()]
    assert said.count("Scheduler hit an exception: Traceback (most recent call last):") == 8
    assert said[-2] == "Received sigquit from a child process. It usually means the child failed."
    assert said[-1].startswith(f"kill_process_tree called: parent_pid={replay.process.pid}, include_parent=True")
    assert READY not in said


def test_hang_stays_silent_in_the_middle_of_the_shards(start: Start) -> None:
    replay = start("--fail", "hang", duration_s=1)
    wait_until(lambda: re.search(r"3\d/64", replay.text()))
    assert replay.process.poll() is None
    assert "64/64" not in replay.text()
    assert replay.end() == 0


def test_a_taken_port_is_said_and_left_alone(start: Start) -> None:
    first = start()
    first.wait_for(READY)
    second = start("--port", str(first.port))
    assert second.process.wait(PATIENCE_S) == 1
    assert f"[Errno 98] error while attempting to bind on address ('127.0.0.1', {first.port})" in second.text()
    assert READY not in second.text()


@pytest.mark.parametrize("flags", [["--port", "70000"], ["--duration", "0"], ["--steps", "-1"], ["--tp-size", "x"]])
def test_bad_flags_are_refused(start: Start, flags: list[str]) -> None:
    replay = start(*flags)
    assert replay.process.wait(PATIENCE_S) == 2
    assert f"argument {flags[0]}" in replay.text()
