"""Starts of a real SGLang that fail, and what Sitrep says of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.engine.models import CONTEXT, make_model, shards_of
from tests.engine.servers import Room
from tests.helpers import free_port

Flags = list[str]
Case = Callable[[Path], tuple[Path, Flags]]


def _bad_flag(folder: Path) -> tuple[Path, Flags]:
    return make_model(folder / "model"), ["--speculative-nmu-steps", "3"]


def _no_model(folder: Path) -> tuple[Path, Flags]:
    return folder / "nowhere", []


def _long_context(folder: Path) -> tuple[Path, Flags]:
    return make_model(folder / "model"), ["--context-length", str(100 * CONTEXT)]


def _missing_shard(folder: Path) -> tuple[Path, Flags]:
    model = make_model(folder / "model")
    shards_of(model)[2].unlink()
    return model, []


def _cut_shard(folder: Path) -> tuple[Path, Flags]:
    model = make_model(folder / "model")
    shard = shards_of(model)[1]
    shard.write_bytes(shard.read_bytes()[:-4096])
    return model, []


def _eagle3(folder: Path, hidden_size: int) -> tuple[Path, Flags]:
    model = make_model(folder / "model")
    draft = make_model(
        folder / "draft", 1, architectures=["LlamaForCausalLMEagle3"], hidden_size=hidden_size, num_hidden_layers=1
    )
    return model, [
        "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", str(draft), "--speculative-num-steps",
        "2", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "3",
    ]  # fmt: skip


def _other_draft(folder: Path) -> tuple[Path, Flags]:
    return _eagle3(folder, 64)


CASES: list[tuple[Case, str, int | None, str]] = [
    (_bad_flag, "bad_flag", 2, "--speculative-nmu-steps"),
    (_no_model, "model_not_found", 1, "nowhere"),
    (_long_context, "context_length", 1, str(CONTEXT)),
    (_missing_shard, "weights_missing", None, "weights"),
    (_cut_shard, "weights_corrupt", None, "weights"),
    (_other_draft, "draft_model", None, "draft"),
]


@pytest.mark.parametrize(("case", "category", "code", "word"), CASES, ids=[one[1] for one in CASES])
def test_why_it_failed(room: Room, tmp_path: Path, case: Case, category: str, code: int | None, word: str) -> None:
    model, flags = case(tmp_path)
    log = tmp_path / "server.log"
    launch = room.launch("--log", str(log), "--", *room.command(model, free_port(), *flags))
    status, moments = room.watch(launch["id"])
    assert (status, moments[-1]["state"]) == (4, "failed")
    assert room.diagnosed(launch["id"]) == category
    ended = room.show(launch["id"])
    assert (ended["exit_code"] if code else ended["exit_signal"]) == (code or 9)
    assert word in ended["failure"]
    finding = room.finding(launch["id"])
    assert (finding["kind"], finding["status"], finding["title"]) == ("root_cause", "open", ended["failure"])
    assert "Fix: " in finding["detail"]
    told = room.sitrep("diagnose", str(log), "--json").json
    assert (told["state"], told["category"]) == ("failed", category)
    assert told["evidence"]
