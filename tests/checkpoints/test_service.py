"""Checkpoints are numbered, immutable, made where a fact has changed, and kept in files."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient
from tests.checkpoints.telling import API, LATEST, latest, make, tell, tell_reference
from tests.helpers import wait_until

from sitrepd.checkpoints.files import write_atomically
from sitrepd.checkpoints.models import Checkpoint
from sitrepd.checkpoints.service import checkpoints


def test_no_new_number_where_no_fact_has_changed(client: TestClient) -> None:
    tell_reference(client)
    first = client.post(f"{API}/sessions/current/checkpoints")
    again = client.post(f"{API}/sessions/current/checkpoints", json={"trigger": "asked again"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
    assert first.headers["location"] == again.headers["location"] == "/api/v1/checkpoints/C1"
    tell(client, "directives", text="One more.")
    assert make(client)["id"] == "C2"


def test_numbers_count_over_all_sessions_and_facts_stay_with_their_own(client: TestClient) -> None:
    for name in ("one", "two"):
        tell(client, "sessions", name=name)
    for number, name in (("S1", "one"), ("S2", "two")):
        client.post(f"{API}/sessions/{number}/directives", json={"text": f"wish of {name}"})
    ids = [client.post(f"{API}/sessions/{one}/checkpoints").json()["id"] for one in ("S2", "S1")]
    assert ids == ["C1", "C2"]
    text = client.get(f"{API}/sessions/S2/checkpoints/latest").text
    assert "wish of two" in text
    assert "wish of one" not in text


def test_a_stored_checkpoint_never_changes(client: TestClient) -> None:
    tell_reference(client)
    before = {form: latest(client, format=form) for form in ("md", "json", "html", "txt")}
    small = latest(client, budget="1000")
    tell(client, "findings", kind="rejected", title="FP8 KV cache", reason="accept rate halves", status="confirmed")
    client.patch(f"{API}/findings/F1", json={"status": "refuted"})
    make(client)
    for form, text in before.items():
        assert client.get(f"{API}/checkpoints/C1", params={"format": form}).text == text
    assert client.get(f"{API}/checkpoints/C1", params={"budget": "1000"}).text == small
    assert "F1 root cause (tried, refuted): " in latest(client)
    assert client.patch(f"{API}/checkpoints/C1", json={"trigger": "x"}).status_code == 422


def test_what_changed_since_the_last_one_is_told_by_ids(client: TestClient) -> None:
    tell_reference(client)
    assert "Changed since" not in latest(client)
    tell(client, "findings", kind="observation", title="new")
    client.patch(f"{API}/next-steps/N1", json={"state": "done"})
    client.patch(f"{API}/sessions/S1", json={"goal": "Another goal."})
    tell(client, "messages", number=4701, role="assistant", text="…")
    make(client)
    text = latest(client)
    assert "## Changed since C1\n- Added: F3\n- Changed: N1 (state), S1 (goal)\n- 1 new message" in text
    tell(client, "directives", text="x")
    make(client)
    assert "## Changed since C2\n- Added: D4\n" in latest(client) + "\n"


def test_superseded_and_refuted_carry_the_word_on_their_line(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    tell(client, "findings", kind="hypothesis", title="old idea")
    tell(client, "findings", kind="root_cause", title="new cause", supersedes="F1", status="confirmed")
    tell(client, "findings", kind="rejected", title="tried", status="refuted")
    text = latest(client).split("\n")
    assert "- F1 hypothesis (superseded by F2): old idea" in text
    assert "- F2 root cause (confirmed): new cause — replaces F1" in text
    assert "- F3 rejected option (refuted): tried — reason not recorded" in text


def test_files_of_the_latest_checkpoint_are_kept(client: TestClient, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    tell(client, "sessions", name="s", goal="g")
    file = project / "SITREP.md"
    client.post(f"{API}/sessions/S1/folders", json={"path": str(project), "file": str(file)})
    wait_until(file.exists)
    assert file.read_text() == latest(client)
    tell(client, "directives", text="Be exact.")
    make(client)
    kept = tmp_path / "store" / "latest" / "S1.md"
    assert file.read_text() == kept.read_text() == latest(client)
    assert "Be exact." in kept.read_text()
    assert [path.name for path in project.iterdir()] == ["SITREP.md"]


def test_a_file_that_cannot_be_written_does_not_matter(client: TestClient, tmp_path: Path) -> None:
    tell(client, "sessions", name="s")
    body = {"path": str(tmp_path), "file": str(tmp_path / "absent" / "deep" / "SITREP.md")}
    client.post(f"{API}/sessions/S1/folders", json=body)
    assert make(client)["number"] in (1, 2)
    assert (tmp_path / "store" / "latest" / "S1.md").exists()


def test_an_older_checkpoint_never_comes_after_a_newer_one(client: TestClient, tmp_path: Path) -> None:
    tell_reference(client)
    for text in ("one", "two"):
        tell(client, "directives", text=text)
        make(client)
    runtime = client.app.state.runtime  # type: ignore[attr-defined]
    made = checkpoints(runtime)
    first, second = (made.stored(number) for number in (1, 2))
    file = tmp_path / "store" / "latest" / "S1.md"
    wait_until(lambda: file.read_text() == second.markdown)

    def write(*rows: Checkpoint) -> None:
        async def all_of_them() -> None:
            async with asyncio.TaskGroup() as group:
                for row in rows:
                    group.create_task(made.write_files(1, row))

        client.portal.call(all_of_them)  # type: ignore[union-attr]

    write(first)
    assert file.read_text() == second.markdown
    file.unlink()
    write(second, first, second)
    assert file.read_text() == second.markdown
    assert sorted(path.name for path in file.parent.iterdir()) == ["S1.json", "S1.md"]


def test_two_that_write_one_file_do_not_share_what_is_unfinished(tmp_path: Path) -> None:
    texts = [letter * 200_000 for letter in "ab"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda text: [write_atomically(tmp_path / "SITREP.md", text) for _ in range(50)], texts))
    assert (tmp_path / "SITREP.md").read_text() in texts
    assert [path.name for path in tmp_path.iterdir()] == ["SITREP.md"]


def test_a_file_is_replaced_through_a_link_and_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / "real.md", tmp_path / "link.md"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_atomically(link, "new ü\n")
    assert link.is_symlink()
    assert target.read_bytes() == "new ü\n".encode()
    assert target.stat().st_mode & 0o777 == 0o640


def test_the_list_says_what_there_is_without_the_texts(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    for number in range(3):
        tell(client, "directives", text=f"wish {number}")
        make(client, trigger=f"round {number}")
    page = client.get(f"{API}/sessions/current/checkpoints", params={"limit": 2}).json()
    assert [(one["id"], one["trigger"]) for one in page["data"]] == [("C3", "round 2"), ("C2", "round 1")]
    assert page["count"] == 3
    assert "rendered" not in page["data"][0]
    assert page["data"][0]["characters"] == len(latest(client))
    more = client.get(f"{API}/checkpoints", params={"cursor": page["next_cursor"]}).json()
    assert [one["id"] for one in more["data"]] == ["C1"]
    assert client.get(f"{API}/checkpoints", params={"cursor": "x"}).status_code == 422


def test_an_imported_checkpoint_is_history_and_never_the_latest(client: TestClient) -> None:
    tell_reference(client)
    make(client)
    exported = client.get(f"{API}/sessions/S1/export").text
    client.post(f"{API}/import", params={"name": "copy.jsonl"}, content=exported.encode())
    answer = client.get(f"{API}/sessions/S2/checkpoints/latest")
    assert answer.headers["x-sitrep-checkpoint"] == "C3"
    kept = client.get(f"{API}/checkpoints/C2").json()
    assert (kept["number"], kept["session"], kept["imported_from"]) == (1, "S2", "copy.jsonl")
    assert client.get(f"{API}/checkpoints/C2", params={"format": "md"}).text == client.get(
        f"{API}/checkpoints/C1", params={"format": "md"}
    ).text  # fmt: skip


def test_an_imported_checkpoint_that_is_none_is_refused_only_as_a_text(client: TestClient) -> None:
    lines = (
        '{"type": "session", "name": "s"}\n{"type": "checkpoint", "number": 3, "trigger": "x", "rendered": {"a": 1}}'
    )
    assert client.post(f"{API}/import", params={"name": "odd.jsonl"}, content=lines.encode()).status_code == 201
    assert client.get(f"{API}/checkpoints/C1").json()["rendered"] == {"a": 1}
    answer = client.get(f"{API}/checkpoints/C1", params={"format": "md"})
    assert answer.status_code == 422
    assert "odd.jsonl" in answer.json()["detail"]


def test_numbers_keep_their_decimals(client: TestClient) -> None:
    body = {
        "metrics": {"output_throughput": {"value": 94.0, "unit": "tok/s"}, "mean_ttft_ms": 1421.70},
        "baseline": True,
    }
    tell(client, "sessions", name="s")
    answer = client.post(f"{API}/benchmarks", content=json.dumps(body).replace("1421.7", "1421.70").encode(), headers={"content-type": "application/json"})  # fmt: skip
    assert answer.status_code == 201
    text = latest(client)
    assert "94.0 tok/s" in text
    assert "mean_ttft_ms 1421.70" in text


def test_nothing_is_told_of_a_session_that_has_nothing_to_tell(client: TestClient) -> None:
    tell(client, "sessions", name="empty")
    text = latest(client)
    assert "S1 goal: not recorded" in text
    heads = [line for line in text.split("\n") if line.startswith("##")]
    assert [head for head in heads if head != "## Hardware"] == ["## Now", "## Goal and directives"]


def test_the_section_model_is_what_the_record_holds(client: TestClient) -> None:
    tell_reference(client)
    made: dict[str, Any] = make(client, trigger="before compaction")
    told = json.loads(latest(client, format="json"))
    assert told.pop("left_out") == []
    assert made["rendered"] == told
    assert told["trigger"] == made["trigger"] == "before compaction"
    assert told["session"] == {"id": "S1", "name": "EAGLE-3 for Kimi-K2.5 INT4"}
    best = next(one for one in told["sections"] if one["name"] == "best")["items"][0]
    assert (best["ids"], best["value"], best["unit"], best["difference"]) == (["B3"], "94.0", "tok/s", "+5.9 %")
    assert client.get(LATEST, headers={"accept": "application/json"}).json()["id"] == "C1"
