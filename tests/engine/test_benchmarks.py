"""`sitrep bench run` against a real SGLang, with both of the clients that come with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engine.models import VOCABULARY, make_model
from tests.engine.servers import Room
from tests.helpers import free_port, lives

_SMALL = ("--random-input-len", "32", "--random-output-len", "32")
KEY = "sk-" + "q8Wz4rTy9pLm2cVb7nXk"


def add_tokenizer(model: Path) -> Path:
    """A word for each token, so that the client in Python can make prompts and count."""
    words = {f"t{number}": number for number in range(VOCABULARY)}
    told = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "t0"},
    }  # fmt: skip
    (model / "tokenizer.json").write_text(json.dumps(told))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "t0", "bos_token": "t1", "eos_token": "t2"}
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


def test_a_flag_that_this_version_lacks_is_refused(room: Room, server: dict[str, Any]) -> None:
    refused = room.sitrep("bench", "run", server["id"], "--preset", "quick", "--", "--num-promts", "3").refused()
    assert "--num-promts is no option of this version of sglang. --num-prompts is the nearest" in refused


def test_nothing_of_it_disturbed_the_server(room: Room) -> None:
    assert "GET /health" not in (room.folder / "measured.log").read_text()
    files = [path for path in (room.folder / "store").rglob("*") if path.is_file() and "launches" not in path.parts]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
