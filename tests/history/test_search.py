"""Full-text search: what is told can be found at once, and as it is now; nothing that can be typed is an error."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.checkpoints.telling import API, make, tell, tell_reference
from tests.daemons import application
from tests.helpers import wait_until
from tests.history.conftest import ask, change, found

from sitrepd.history import index
from sitrepd.storage.search import SearchState


def test_what_was_imported_is_found_with_its_words_marked(told: TestClient) -> None:
    page = ask(told, "/search", q="accept rate")
    assert [(one["id"], one["type"], one["session"]) for one in page["data"]] == [("F1", "finding", "S1")]
    assert "After the fix the **accept** **rate** rose" in page["data"][0]["snippet"]
    assert page["data"][0]["state"] == "root cause, confirmed"
    assert (page["count"], page["at_least"], page["matched"]) == (1, False, "all")


def test_words_phrases_beginnings_flags_and_paths(told: TestClient) -> None:
    for words, ids in (
        ('"hidden states"', ["F1"]),
        ('"states hidden"', []),
        ("HIDDEN", ["F1"]),
        ("hid*", ["F1"]),
        ("hid", []),
        ("94.0", ["B3"]),
        ("F1", ["F1"]),
        ("NCCL_NTHREADS=512", ["L1"]),
        ("--speculative-num-draft-tokens 4", ["L1"]),
        ("eagle_worker.py", ["A3"]),
    ):
        assert (words, found(told, words)) == (words, ids)


def test_a_title_weighs_more_than_a_mention(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    tell(client, "findings", kind="observation", title="Other", detail="The quantisation is named in passing. " * 3)
    tell(client, "findings", kind="decision", title="Quantisation of the cache")
    tell(client, "findings", kind="observation", title="More", detail="Quantisation once more.")
    assert found(client, "quantisation")[0] == "F2"


def test_kinds_and_sessions(told: TestClient) -> None:
    tell(told, "sessions", name="another")
    told.post(f"{API}/sessions/S2/findings", json={"kind": "decision", "title": "throughput first"}).raise_for_status()
    everywhere = found(told, "throughp*")
    assert {"F3", "B3"} < set(everywhere)
    assert found(told, "throughp*", kind="finding") == ["F3"]
    assert found(told, "throughp*", kind=["benchmarks", "directive"]) == [one for one in everywhere if one[0] in "BD"]
    assert found(told, "throughp*", session="S2") == ["F3"]
    refused = told.get(f"{API}/search", params={"q": "x", "kind": "wish"})
    assert refused.status_code == 422
    assert "next_step" in refused.json()["detail"]


def test_some_of_the_words_where_no_fact_has_all(told: TestClient) -> None:
    page = ask(told, "/search", q="accept unheard-of")
    assert ([one["id"] for one in page["data"]], page["matched"]) == (["F1"], "any")


def test_it_is_in_step_with_changes(told: TestClient) -> None:
    change(told, "/findings/F2", title="Nothing of the kind", detail="zebra", status="refuted")
    assert found(told, "lever") == []
    assert ask(told, "/search", q="zebra")["data"][0]["state"] == "observation, refuted"
    change(told, "/benchmarks/B2", metrics={"output_throughput": 85.12})
    assert found(told, "85.1") == []
    assert found(told, "85.12") == ["B2"]


def test_what_replaces_another_says_so_of_both(told: TestClient) -> None:
    tell(told, "findings", kind="observation", title="zebra", supersedes="F2")
    assert ask(told, "/search", q="lever")["data"][0]["state"] == "observation, superseded"


def test_a_refused_fact_is_not_found(told: TestClient) -> None:
    assert (
        told.post(f"{API}/findings", json={"kind": "decision", "title": "quagga", "supersedes": "F99"}).status_code
        == 422
    )
    assert found(told, "quagga") == []


def test_secrets_are_not_found(told: TestClient) -> None:
    secret = "hf_" + "abcdefghij" * 3 + "ABCD"
    tell(told, "messages", number=1, role="user", text=f"log in with {secret} please")
    assert found(told, secret) == []
    assert found(told, "log please")


def test_pages_follow_each_other(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    for number in range(7):
        tell(client, "findings", kind="observation", title=f"okapi {number}")
    seen: list[str] = []
    cursor = None
    while True:
        page = ask(client, "/search", q="okapi", limit=3, **({"cursor": cursor} if cursor else {}))
        assert page["count"] == 7
        seen += [one["id"] for one in page["data"]]
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 7


def test_a_word_that_is_everywhere_gives_the_newest(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    lines = "\n".join(f'{{"type": "message", "number": {n}, "role": "user", "text": "okapi {n}"}}' for n in range(700))
    client.post(f"{API}/import", content=lines).raise_for_status()
    tell(client, "messages", number=701, role="user", text="okapi again")
    page = ask(client, "/search", q="okapi", limit=3)
    assert page["data"][0]["snippet"].endswith("**okapi** again")
    assert (page["count"], page["at_least"]) == (701, False)


def test_scripts_without_spaces_and_accents(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    tell(client, "findings", kind="observation", title="推測デコードの受理率", detail="Güte der Entwürfe")
    page = ask(client, "/search", q="受理率")
    assert page["data"][0]["name"] == "F1 推測デコードの**受理率**"
    assert found(client, "受率") == []
    assert found(client, "entwurfe GÜTE") == ["F1"]


def test_the_end_of_a_long_message_is_found(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    told = tell(client, "messages", number=1, role="user", text="word " * 40_000 + "okapi")
    page = ask(client, "/search", q="okapi")
    assert [(one["type"], one["id"]) for one in page["data"]] == [("message", told["id"])]
    assert len(page["data"][0]["snippet"]) < 1000
    assert len(ask(client, "/search", q="word")["data"]) == 1


_BAD = ["", '"', '""', "*", "AND", "NOT x", "(", "a:b", "name:x", "x AND", "-", "^a", "{a b}: c", "\x00", "NEAR(a b)",
              "'; DROP TABLE event; --", "🚀", "a" * 9000, '"a" "b', "a*b", "**"]  # fmt: skip


def test_bad_syntax_is_no_error(told: TestClient) -> None:
    for words in _BAD:
        assert "data" in ask(told, "/search", q=words)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.text(max_size=40))
def test_nothing_that_can_be_typed_is_an_error(told: TestClient, words: str) -> None:
    ask(told, "/search", q=words.encode(errors="replace").decode())


def test_checkpoints_are_found_by_their_names_and_not_by_their_texts(told: TestClient) -> None:
    make(told)
    assert "C1" not in found(told, "hidden states")
    change(told, "/checkpoints/C1", name="before the okapi")
    assert found(told, "okapi") == ["C1"]


def test_a_title_stands_before_a_thousand_mentions(client: TestClient) -> None:
    tell(client, "sessions", name="s")
    tell(client, "findings", kind="observation", title="okapi")
    lines = "\n".join(f'{{"type": "message", "number": {n}, "role": "user", "text": "okapi {n}"}}' for n in range(1100))
    client.post(f"{API}/import", content=lines).raise_for_status()
    page = ask(client, "/search", q="okapi", limit=2)
    assert [one["type"] for one in page["data"]] == ["finding", "message"]
    assert page["at_least"]
    assert len(ask(client, "/search", q="okapi 7")["data"]) == 1


def test_an_older_store_is_filled_at_its_first_start(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        tell_reference(client)
        names = found(client, "throughput")
    with closing(sqlite3.connect(tmp_path / "store" / "sitrep.db")) as db, db:
        db.execute("INSERT INTO search_text (search_text) VALUES ('delete-all')")
        db.execute("DELETE FROM search_entry")
        db.execute("DELETE FROM search_state")
    with application(tmp_path / "store") as client:
        assert found(client, "throughput") == names
        assert found(client, '"hidden states"') == ["F1"]


def test_a_large_older_store_is_read_beside_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with application(tmp_path / "store") as client:
        tell_reference(client)
        names = found(client, "throughput")
    with closing(sqlite3.connect(tmp_path / "store" / "sitrep.db")) as db, db:
        db.execute("DELETE FROM search_state")
    monkeypatch.setattr(index, "_AT_ONCE", 0)
    monkeypatch.setattr(index, "_BATCH", 3)
    with application(tmp_path / "store") as client:
        tell(client, "findings", kind="observation", title="okapi")
        wait_until(lambda: set(found(client, "throughput")) == set(names), 60)
        assert found(client, "okapi") == ["F3"]
        store = client.app.state.runtime.store  # type: ignore[attr-defined]
        wait_until(lambda: _seen_until(store) > 0, 60)


def _seen_until(store: Any) -> int:
    with store.read() as db:
        state = db.get(SearchState, 1)
    return state.event if state is not None else 0


def test_what_another_program_stored_is_caught_up(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        tell_reference(client)
    with closing(sqlite3.connect(tmp_path / "store" / "sitrep.db")) as db, db:
        db.execute("UPDATE finding SET title = 'quagga' WHERE id = 1")
        db.execute("INSERT INTO event (at, session_id, kind, subject, data) VALUES "
                   "('2026-12-01', 1, 'finding.changed', 'F1', '{}')")  # fmt: skip
    with application(tmp_path / "store") as client:
        assert found(client, "quagga") == ["F1"]


def test_the_index_and_its_words_stay_consistent(told: TestClient, tmp_path: Path) -> None:
    for title in ("okapi", "quagga", "okapi"):
        change(told, "/findings/F1", title=title)
    make(told)
    with closing(sqlite3.connect(tmp_path / "store" / "sitrep.db")) as db:
        db.execute("INSERT INTO search_text (search_text, rank) VALUES ('integrity-check', 1)")


def test_what_could_not_be_followed_while_a_store_is_read_is_left_to_the_next_daemon(
    told: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = told.app.state.runtime  # type: ignore[attr-defined]
    indexer = index.Indexer(runtime.registry)
    indexer.reading = True

    def fail(*_: Any) -> None:
        raise OSError("no page left")

    with monkeypatch.context() as patched:
        patched.setattr(index, "documents", fail)
        with pytest.raises(OSError, match="no page left"):
            runtime.store.write(lambda db: indexer.follow(db, [("finding.changed", "F1")]))
    seen: list[index.Indexer] = []
    monkeypatch.setattr(index.Indexer, "seen", lambda one, db: seen.append(one))
    index._read_all(runtime.store, indexer, [("finding", 1)])
    assert (indexer.reading, indexer.sound, indexer in seen) == (False, False, False)
    whole = index.Indexer(runtime.registry)
    whole.reading = True
    index._read_all(runtime.store, whole, [("finding", 1)])
    assert whole in seen


def test_kinds_are_known_by_the_same_words_everywhere(told: TestClient) -> None:
    for word in ("next", "step", "next-steps", "next_step"):
        assert found(told, "the", kind=word) == found(told, "the", kind="next_step")
        assert {one["type"] for one in ask(told, "/sessions/S1/timeline", kind=word)["data"]} == {"next_step"}
    assert told.get(f"{API}/sessions/S1/timeline", params={"kind": "phases"}).status_code == 200
    assert told.get(f"{API}/search", params={"q": "x", "kind": "phases"}).status_code == 422
