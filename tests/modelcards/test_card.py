"""A card beside what real engines reported, and through every door."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlmodel import Session
from tests.daemons import Daemon
from tests.helpers import wait_until
from tests.launches.reading import read_file
from tests.modelcards import folders
from tests.modelcards.test_known import card

from sitrepd.launches.apply import apply_events
from sitrepd.launches.models import Launch
from sitrepd.modelcards.card import read_card
from sitrepd.storage import events

LOGS = Path(__file__).parents[1] / "data" / "logs"


def test_the_model_of_the_recordings(tmp_path: Path) -> None:
    found = read_card(folders.target(tmp_path / "target"))
    assert found.parameters == found.details["parameters"]["by_config"] == 7_241_732_096
    assert found.weight_bytes == 2 * 7_241_732_096
    assert found.details["weights"]["by_type"] == {"BF16": found.weight_bytes}
    # 458681 tokens took 28.00 GiB for K, and as much for V.
    assert round(458681 * (found.kv_bytes_per_token or 0) / 2 / (1 << 30), 2) == 28.00


def test_its_draft(tmp_path: Path) -> None:
    found = read_card(folders.draft(tmp_path / "draft"))
    told = found.details["draft"]
    assert (told["kind"], told["fc"], told["hidden_states_joined"]) == ("EAGLE-3", [4096, 12288], 3)
    assert (told["vocab_size"], told["draft_vocab_size"], told["maps_vocabulary"]) == (32000, 32000, True)
    assert told["midlayer"]["self_attn.q_proj.weight"] == [4096, 8192]
    # 433952 tokens took 0.83 GiB for K; the buffers that translate vocabularies are no parameters.
    assert round(433952 * (found.kv_bytes_per_token or 0) / 2 / (1 << 30), 2) == 0.83
    assert found.details["weights"]["by_type"]["I64"] == 256000
    assert found.parameters == ((found.weight_bytes or 0) - 256000 - 32000) // 2


def test_kimi_beside_what_an_engine_reported() -> None:
    # "#tokens: 2454421, KV size: 160.63 GB" on every one of eight ranks.
    assert round(2454421 * (card("Kimi K2").kv_bytes_per_token or 0) / (1 << 30), 2) == 160.63


def _told_by(client: TestClient, log: str, model: Path) -> str:
    """A launch as the parser of its log tells it."""
    told = client.post("/api/v1/launches", json={"start": False, "model": str(model)}).json()["id"]

    def job(db: Session) -> None:
        row = db.get(Launch, int(told[1:]))
        assert row is not None
        apply_events(db, row, read_file(LOGS / log))

    client.app.state.runtime.store.write(job)  # type: ignore[attr-defined]
    return str(told)


def _made(client: TestClient, folder: Path) -> dict[str, Any]:
    answer = client.post("/api/v1/models/card", json={"path": str(folder)})
    assert answer.status_code in (200, 201), answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.fixture
def session(client: TestClient) -> TestClient:
    client.post("/api/v1/sessions", json={"name": "s"})
    return client


def test_tokens_that_fit_beside_those_that_were_reported(session: TestClient, tmp_path: Path) -> None:
    target = _made(session, folders.target(tmp_path / "target"))
    draft = _made(session, folders.draft(tmp_path / "draft"))
    plain = _told_by(session, "h200-0.5.16-base-cold-jit.log", tmp_path)
    found = session.get(f"/api/v1/models/{target['id']}/fit", params={"launch": plain}).json()
    assert (found["fraction"], found["tp"], found["kv_type"], found["reported"]) == (0.5, 1, "bf16", 458681)
    assert found["tokens"] == pytest.approx(458681, rel=0.002)
    assert found["tokens"] + sum(one["tokens"] for one in found["why"]) == 458681
    assert found["why"][-1]["what"] == "memory that the engine held back or used otherwise"

    drafted = _told_by(session, "h200-0.5.16-eagle3-s2.log", tmp_path)
    asked = {"launch": drafted, "draft": draft["id"]}
    found = session.get(f"/api/v1/models/{target['id']}/fit", params=asked).json()
    assert (found["token_bytes"], found["reported"]) == (131072 + 4096, 433952)
    # The engine gave the draft tables that its file does not hold: 1.36 GiB instead of 0.79 GiB.
    assert found["tokens"] == pytest.approx(433952, rel=0.012)
    of_draft = next(one for one in found["why"] if one["what"] == "draft's weights")
    assert abs(found["tokens"] + of_draft["tokens"] - 433952) < 0.002 * 433952
    assert found["tokens"] + sum(one["tokens"] for one in found["why"]) == 433952

    without = session.get(f"/api/v1/models/{target['id']}/fit", params={"launch": drafted}).json()
    assert without["notes"] == ["The draft /models/draft has no card, so its weights and its KV cache are not counted."]
    assert "KV cache of a token" in [one["what"] for one in without["why"]]


def test_tokens_by_what_is_asked(session: TestClient, tmp_path: Path) -> None:
    told = _made(session, folders.target(tmp_path / "target"))
    path = f"/api/v1/models/{told['id']}/fit"
    asked = {"free_bytes": 80 << 30, "fraction": 0.9, "tp": 2, "kv_type": "fp8"}
    found = session.get(path, params=asked).json()
    room = int((80 << 30) * 0.9) - told["weight_bytes"] // 2
    assert (found["room_bytes"], found["tokens"]) == (room, room // 32768)
    assert session.get(path, params=asked | {"free_bytes": 1 << 30}).json()["tokens"] == 0
    assert session.get(path, params={"tp": 2}).status_code == 422
    assert session.get(path, params=asked | {"kv_type": "int3"}).json()["detail"].startswith("'int3' is no KV type")
    told = session.post("/api/v1/models", json={"path": "/m"}).json()
    assert "sitrep model card" in session.get(f"/api/v1/models/{told['id']}/fit", params=asked).json()["detail"]


def test_a_folder_gives_one_card_and_a_changed_one_changes_it(session: TestClient, tmp_path: Path) -> None:
    folder = folders.draft(tmp_path / "draft")
    first = _made(session, folder)
    assert _made(session, folder) == first
    assert first["provenance"] == f"observed:{folder}"
    folders.weights(folder / "model.safetensors", {"fc.weight": ("BF16", (4096, 12288))})
    changed = _made(session, folder)
    assert (changed["id"], changed["weight_bytes"]) == (first["id"], 2 * 4096 * 12288)
    assert changed["digest"] != first["digest"]
    assert session.get("/api/v1/models").json()["count"] == 1


def test_what_a_changed_folder_says_no_more_is_not_kept(session: TestClient, tmp_path: Path) -> None:
    folder = folders.draft(tmp_path / "draft")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "fp8"}}))
    first = _made(session, folder)
    assert (first["quantization"], first["weight_bytes"] > 0) == ("FP8", True)
    session.patch(f"/api/v1/models/{first['id']}", json={"note": "mine"}).raise_for_status()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").unlink()
    changed = _made(session, folder)
    assert changed["id"] == first["id"]
    assert not {"quantization", "weight_bytes"} & changed.keys()
    assert changed["note"] == "mine"


def test_a_card_tells_no_less_than_was_told_before_it(session: TestClient, tmp_path: Path) -> None:
    folder = folders.draft(tmp_path / "draft")
    (folder / "model.safetensors").unlink()
    told = {"path": str(folder), "quantization": "by hand", "weight_bytes": 7}
    session.post("/api/v1/models", json=told).raise_for_status()
    assert {name: _made(session, folder)[name] for name in told} == told


def test_a_quantization_in_a_file_of_its_own_changes_the_card(session: TestClient, tmp_path: Path) -> None:
    folder = folders.draft(tmp_path / "draft")
    first = _made(session, folder)
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": {"quant_algo": "NVFP4"}}))
    changed = _made(session, folder)
    assert changed["id"] == first["id"]
    assert changed["digest"] != first["digest"]
    assert "fp4" in changed["quantization"].lower()


def test_of_a_folder_that_is_none_nothing_is_stored(session: TestClient, tmp_path: Path) -> None:
    folder = folders.draft(tmp_path / "draft")
    folders.weights(folder / "model.safetensors", {"fc.weight": ("BF16", (4096, 12288))}, beyond=1)
    for path, why in ((str(folder), "promises 100663296 bytes of tensors and has 100663295"),
                      (str(tmp_path / "none"), "is no folder"), ("draft", "does not begin at the root")):  # fmt: skip
        answer = session.post("/api/v1/models/card", json={"path": path})
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert why in answer.json()["detail"]
    assert session.get("/api/v1/models").json()["count"] == 0


def test_the_models_of_a_launch_get_their_cards_by_themselves(daemon: Daemon, tmp_path: Path) -> None:
    target, draft = folders.target(tmp_path / "target"), folders.draft(tmp_path / "draft")
    daemon.client.post("/api/v1/sessions", json={"name": "s"})
    program = tmp_path / "sglang"
    program.write_text("import time; time.sleep(600)")
    argv = [sys.executable, "-c", "import time; time.sleep(600)", "-m", "sglang.launch_server"]
    argv += ["--model-path", str(target), "--speculative-draft-model-path", str(draft)]
    told = daemon.client.post("/api/v1/launches", json={"command": shlex.join(argv), "engine": "sglang",
                              "model": str(target), "draft_model": str(draft)})  # fmt: skip
    assert told.status_code == 201, told.text
    found = wait_until(lambda: (page := daemon.client.get("/api/v1/models").json())["count"] == 2 and page["data"])
    assert {one["path"]: one["parameters"] for one in found}[str(target)] == 7_241_732_096
    # A second launch of the same model adds none.
    daemon.client.post(
        "/api/v1/launches",
        json={"command": "sleep 600", "model": str(target), "port": 18},
    )
    other = folders.draft(tmp_path / "other")
    daemon.client.post("/api/v1/launches", json={"command": "sleep 600", "model": str(other), "port": 19})
    wait_until(lambda: daemon.client.get("/api/v1/models").json()["count"] == 3)


def _started(client: TestClient, model: str, draft: str) -> None:
    """A launch that is observed, as far as model cards can see, without a process."""

    def job(db: Session) -> None:
        row = Launch(
            session_id=1,
            command="x",
            state="loading",
            watched=True,
            provenance="observed",
            model=model,
            draft_model=draft,
        )
        db.add(row)
        db.flush()
        events.record(db, "launch.created", f"L{row.id}", 1)

    client.app.state.runtime.store.write(job)  # type: ignore[attr-defined]


def _cards(client: TestClient) -> list[str]:
    return [one["path"] for one in client.get("/api/v1/models").json()["data"]]


@pytest.mark.parametrize("told", ["~nobody-of-that-name/model", "/" + 300 * "x"], ids=["no such user", "too long"])
def test_a_model_that_cannot_be_looked_at_costs_no_other_its_card(
    session: TestClient, tmp_path: Path, told: str
) -> None:
    _started(session, told, str(folders.draft(tmp_path / "draft")))
    wait_until(lambda: _cards(session) == [str(tmp_path / "draft")])
    _started(session, str(folders.draft(tmp_path / "next")), told)
    wait_until(lambda: len(_cards(session)) == 2)


def test_a_file_system_that_does_not_answer_keeps_nobody_else_waiting(
    session: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answers, is_file, hung = Event(), Event(), Path.is_file, list[bool]()

    def hangs(path: Path) -> bool:
        if path.parent.name == "hung":
            asked.set()
            hung.append(not answers.wait(30))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", hangs)
    try:
        _started(session, str(folders.draft(tmp_path / "hung")), str(folders.draft(tmp_path / "draft")))
        assert asked.wait(60)
        told = session.post("/api/v1/findings", json={"kind": "observation", "title": "meanwhile"})
        assert (told.status_code, hung) == (201, [])
    finally:
        answers.set()
    wait_until(lambda: len(_cards(session)) == 2)
