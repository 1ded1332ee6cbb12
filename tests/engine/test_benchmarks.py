"""`sitrep bench run` against a real SGLang, with both of the clients that come with it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.models import VOCABULARY, make_model
from tests.engine.servers import Room
from tests.helpers import free_port, lives

_SMALL = ("--random-input-len", "32", "--random-output-len", "32")
KEY = "sk-" + "q8Wz4rTy9pLm2cVb7nXk"


def _letters() -> list[str]:
    """As GPT-2 writes bytes: those that can be printed as they are, the others from 256 on."""
    plain = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [number for number in range(256) if number not in plain]
    return [*map(chr, sorted(plain)), *(chr(256 + at) for at in range(len(others)))]


def add_tokenizer(model: Path) -> Path:
    """A token for each byte, so that every tool can make its prompts of text: guidellm sends nothing where it has none."""
    letters = sorted(_letters())
    words = ["<unk>", "<s>", "</s>", *letters]
    words += [f"<extra_{number}>" for number in range(len(words), VOCABULARY)]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    told = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "pre_tokenizer": bytes_,
        "post_processor": None, "decoder": bytes_,
        "added_tokens": [
            {"id": number, "content": word, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": True}
            for number, word in enumerate(words[:3])
        ],
        "model": {
            "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "merges": [],
            "vocab": {word: number for number, word in enumerate(words)},
        },
    }  # fmt: skip
    (model / "tokenizer.json").write_text(json.dumps(told))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    (model / "tokenizer_config.json").write_text(json.dumps(config))
    return model


@pytest.fixture(scope="module")
def server(room: Room) -> Iterator[dict[str, Any]]:
    """Ready, with counters, and a key that its clients need."""
    port = free_port()
    model = add_tokenizer(make_model(room.folder / "spoken"))
    words = [
        word
        for word in room.command(model, port, "--enable-metrics", "--api-key", KEY)
        if word != "--skip-tokenizer-init"
    ]
    launch = room.launch("--name", "measured", "--log", str(room.folder / "measured.log"), "--", *words)
    assert room.watch(launch["id"])[0] == 0
    yield launch
    if lives(launch["pid"]):
        room.sitrep("stop", launch["id"])


def run(room: Room, *words: str) -> dict[str, Any]:
    """The job at its end; each moment of it was printed on a line."""
    running = room.sitrep.start("bench", "run", "--json", *words)
    out, err = running.communicate(timeout=400)
    assert running.returncode == 0, out + err
    moments = [json.loads(line) for line in out.splitlines()]
    assert any(moment.get("total") for moment in moments)
    return dict(moments[-1])


@pytest.mark.parametrize("tool", ["sglang", "sglang-rust"])
def test_both_clients_measure(room: Room, server: dict[str, Any], tool: str) -> None:
    repeat = "2" if tool == "sglang-rust" else "1"
    job = run(
        room, server["id"], "--tool", tool, "--preset", "quick", "--repeat", repeat, "--name", tool, "--", *_SMALL
    )
    assert (job["state"], len(job["benchmarks"])) == ("done", int(repeat))
    told = room.show(job["benchmarks"][0])
    values = {name: one["value"] for name, one in told["metrics"].items()}
    assert (told["launch"], told["name"], values["completed"], told["workload"]["num_prompts"]) == (
        server["id"],
        tool,
        16,
        16,
    )
    assert (values["total_output_tokens"], "failed" in values) == (16 * 32, False)
    assert values["output_throughput"] > 0
    assert 0 <= values["cache_hit_rate"] < 1
    assert "cache_hit_rate: of this run, by the server's counters" in told["note"]
    assert told["config"]["sglang_version"]
    kept = room.sitrep("bench", "original", told["id"]).ok().out
    assert json.loads(kept)["completed"] == 16
    assert KEY not in kept


_OTHERS = {
    "vllm": _SMALL,
    "guidellm": ("--data", "kind=synthetic_text,prompt_tokens=32,output_tokens=32"),
    "aiperf": ("--isl", "32", "--osl", "32"),
}
# Read before the tests take what is set for Sitrep out of their environment.
_PROGRAMS = {tool: os.environ.get(f"SITREP_TEST_{tool.upper()}") for tool in _OTHERS}


@pytest.mark.parametrize("tool", sorted(_OTHERS))
def test_the_tools_of_others_measure(room: Room, server: dict[str, Any], tool: str) -> None:
    program, flags = _PROGRAMS[tool], _OTHERS[tool]
    if program is None:
        pytest.skip(f"needs {tool}: SITREP_TEST_{tool.upper()} names its file, such as /opt/{tool}/bin/{tool}")
    words = ("--tool", tool, "--program", program, "--preset", "quick", "--name", tool, "--", *flags)
    job = run(room, server["id"], *words)
    told = room.show(job["benchmarks"][0])
    values = {name: one["value"] for name, one in told["metrics"].items()}
    assert (job["state"], values["completed"], values.get("failed", 0), told.get("marks")) == ("done", 16, 0, [])
    assert (values["total_input_tokens"], values["total_output_tokens"]) == (16 * 32, 16 * 32)
    assert {"output_throughput", "mean_ttft_ms", "median_itl_ms", "p99_e2e_latency_ms"} <= set(values)
    assert "cache_hit_rate: of this run, by the server's counters" in told["note"]
    assert (told["workload"]["num_prompts"], told["workload"]["max_concurrency"]) == (16, 4)
    assert KEY not in room.sitrep("bench", "original", told["id"]).ok().out


def test_a_flag_that_this_version_lacks_is_refused(room: Room, server: dict[str, Any]) -> None:
    refused = room.sitrep("bench", "run", server["id"], "--preset", "quick", "--", "--num-promts", "3").refused()
    assert "--num-promts is no option of this version of sglang. --num-prompts is the nearest" in refused


def test_nothing_of_it_disturbed_the_server(room: Room) -> None:
    assert "GET /health" not in (room.folder / "measured.log").read_text()
    files = [path for path in (room.folder / "store").rglob("*") if path.is_file() and "launches" not in path.parts]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
