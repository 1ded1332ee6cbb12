"""What a session says in a checkpoint: goal, directives, next steps, artifacts, its last message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.checkpoints.telling import section_text, written

from sitrepd.sessions.report import goal, next_steps

NOW = datetime(2026, 12, 1, 3, 20, 47, tzinfo=UTC)


def step(number: int, state: str = "todo", order: int | None = None, after: tuple[str, ...] = ()) -> Any:
    text = f"do {number}"
    return SimpleNamespace(id=number, text=text, state=state, order=order, after=list(after), needs=None)


def test_steps_stand_in_their_order_and_what_is_over_last() -> None:
    rows = [step(5, "done"), step(4), step(3, order=2), step(2, "doing", order=1), step(1, "dropped")]
    section = next_steps(rows)
    assert [item["id"] for item in section.items] == ["N2", "N3", "N4", "N5", "N1"]
    assert [item.get("pinned", True) for item in section.items] == [True, True, True, False, False]


def test_the_first_step_stays_longest() -> None:
    first, second = next_steps([step(2, order=2), step(1, order=1)]).items
    assert (first["id"], first.get("priority", 3), second["priority"]) == ("N1", 3, 9)


LAUNCH = {"type": "launch", "command": "serve --port 1"}
WAITING = [
    {"type": "session", "name": "s"},
    LAUNCH | {"key": "l", "state": "loading"},
    LAUNCH | {"key": "was", "state": "exited", "ready_at": "2026-12-01T01:00:00Z"},
    LAUNCH | {"key": "failed", "state": "failed"},
    {"type": "next_step", "key": "bench", "text": "Benchmark it.", "order": 1, "after": ["l"]},
    {"type": "next_step", "key": "done", "text": "Done.", "state": "done"},
    {"type": "next_step", "text": "Write it up.", "order": 4, "after": ["done", "was"]},
    {"type": "next_step", "text": "Read the paper.", "order": 3, "needs": "nothing"},
    {"type": "next_step", "text": "Profile it.", "order": 5, "needs": "server"},
    {"type": "next_step", "text": "Compare.", "order": 2, "after": ["failed", "bench"]},
]


def test_a_step_says_what_has_become_of_what_it_waits_for(tmp_path: Path) -> None:
    rendered = written(tmp_path, WAITING)
    assert section_text(rendered, "next_steps") == [
        "- N1 (todo, order 1, after L1): Benchmark it.",
        "- N6 (todo, order 2, after L3 (failed), N1): Compare.",
        "- N4 (todo, order 3, needs no server): Read the paper.",
        "- N3 (todo, order 4, after N2 (done), L2 (was ready)): Write it up.",
        "- N5 (todo, order 5, needs a server): Profile it.",
        "- N2 (done): Done.",
    ]
    steps = next(one for one in rendered["sections"] if one["name"] == "next_steps")["items"]
    assert [item["id"] for item in steps if item.get("priority", 3) == 3] == ["N1", "N4"]


def test_the_wait_can_be_used_for_what_needs_no_server(tmp_path: Path) -> None:
    (line,) = [line for line in section_text(written(tmp_path, WAITING), "now") if line.startswith("- Until")]
    unknown = "waits for nothing; whether it needs a server was not told"
    assert line == f"- Until L1 is ready, N4 (needs no server), then N3 ({unknown}) can be done"


def test_where_every_step_waits_that_is_told(tmp_path: Path) -> None:
    (line,) = [line for line in section_text(written(tmp_path, WAITING[:5]), "now") if line.startswith("- Until")]
    assert line.startswith("- Until L1 is ready, no next step can be done: ")


def test_directives_stand_word_for_word_and_those_taken_back_say_so(tmp_path: Path) -> None:
    told = [
        {"type": "session", "name": "s", "best_metric": "mean_ttft_ms", "started_at": "2026-11-30T01:00:00Z"},
        {"type": "directive", "text": "Only *legit* improvements.", "message": 12},
        {"type": "directive", "text": "Use FP8.", "active": False},
    ]
    lines = section_text(written(tmp_path, told), "goal")
    assert lines == [
        "- S1 goal: not recorded",
        "- D1 (message 12): Only *legit* improvements.",
        "- D2 (taken back): Use FP8.",
        "- S1 s, since 2026-11-30T01:00:00Z, imported from reference-session.jsonl; best is judged by mean_ttft_ms",
    ]


def test_a_beginning_that_was_not_told_is_not_made_up() -> None:
    told: dict[str, Any] = {"id": 1, "name": "s", "goal": None, "best_metric": None, "ended_at": None, "at": NOW}
    imported = SimpleNamespace(**told, started_at=NOW, imported_from="x")
    own = SimpleNamespace(**told, started_at=NOW, imported_from=None)
    earlier = SimpleNamespace(**told, started_at=NOW - timedelta(hours=1), imported_from="x")
    begun = [goal(one, []).items[-1].get("started_at") for one in (imported, own, earlier)]
    assert begun == [None, "2026-12-01T03:20:47Z", "2026-12-01T02:20:47Z"]


def test_messages_are_told_by_the_last_one_alone(tmp_path: Path) -> None:
    messages = [{"type": "message", "number": n, "role": "assistant", "text": f"text {n}"} for n in (7, 8)]
    last = {"type": "message", "number": 9, "role": "user", "text": " ", "synthetic": True}
    rendered = written(tmp_path, [{"type": "session", "name": "s"}, *messages, last])
    first = section_text(rendered, "now")[0]
    assert first.startswith("- Last message: number 9, user, empty, made by the client, told 20")
    assert "text 8" not in str(rendered)


def test_artifacts_say_where_they_are_and_why_they_matter(tmp_path: Path) -> None:
    told = [
        {"type": "session", "name": "s"},
        {"type": "host", "key": "h", "name": "box"},
        {"type": "artifact", "path": "/d/4", "host": "h", "role": "draft", "note": "two\nlines"},
        {"type": "artifact", "path": "x.py"},
    ]
    lines = section_text(written(tmp_path, told), "artifacts")
    assert lines == ["- A1 /d/4 on H1 box, draft —", "```text", "two", "lines", "```", "- A2 x.py"]
