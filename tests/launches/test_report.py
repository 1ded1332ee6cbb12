"""What launches say in a checkpoint: what is going on now, and the history of starts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session
from tests.checkpoints.telling import SHIPPED, section_text, written

from sitrepd.checkpoints.render import render
from sitrepd.launches.live import LiveLaunch
from sitrepd.launches.models import Launch, LaunchPhase, LaunchSize
from sitrepd.reporting import joined

SESSION = {"type": "session", "name": "s"}
LAUNCH = {"type": "launch", "name": "three steps", "engine": "sglang", "command": "serve --steps 3", "state": "loading"}
BEGAN = datetime(2026, 12, 1, 3, 0, tzinfo=UTC)


def watched(number: int = 1, **columns: Any) -> Callable[[Session], None]:
    """Make a told launch one that is followed, as the daemon does it with its own."""

    def change(db: Session) -> None:
        row = db.get(Launch, number)
        assert row is not None
        for name, value in ({"watched": True, "imported_from": None, "started_at": BEGAN} | columns).items():
            setattr(row, name, value)
        db.add(row)

    return change


def test_a_living_launch_says_how_far_it_is(tmp_path: Path) -> None:
    live = LiveLaunch(
        state="loading", phase="load_weights", title="weights", progress=0.1875, done=12, total=64, unit="shards",
        remaining_s=385, remaining_low_s=290, remaining_high_s=480, remaining_of="start", pid=77,
    )  # fmt: skip
    rendered = written(tmp_path, [SESSION, LAUNCH], watched(), {"launches": {1: live}})
    assert section_text(rendered, "now")[:5] == [
        "- L1 three steps is loading: weights 12/64 shards (18.8 %), time left 4 min 50 s to 8 min; sglang, "
        "started 2026-12-01T03:00:00Z",
        "- Command of L1:",
        "```sh",
        "serve --steps 3",
        "```",
    ]


@pytest.mark.parametrize(
    ("live", "told"),
    [
        ({"remaining_s": None}, "time left not known"),
        ({"remaining_s": 90, "remaining_of": "phase"}, "time left of this phase about 1 min 30 s"),
        ({"remaining_s": 90, "remaining_low_s": 90.2, "remaining_high_s": 90.4}, "time left about 1 min 30 s"),
        ({"progress": 0.5}, "50.0 %, time left not known"),
    ],
)
def test_what_is_not_known_of_the_time_left_is_said(tmp_path: Path, live: dict[str, Any], told: str) -> None:
    rendered = written(tmp_path, [SESSION, LAUNCH], watched(), {"launches": {1: LiveLaunch(state="loading", **live)}})
    assert told in section_text(rendered, "now")[0]


def test_where_nothing_is_alive_in_memory_the_rows_are_told(tmp_path: Path) -> None:
    def change(db: Session) -> None:
        watched(suspect="no progress for 600 s", ready_at=None)(db)
        db.add(LaunchPhase(launch_id=1, name="starting", started_at=BEGAN, ended_at=BEGAN))
        db.add(LaunchPhase(launch_id=1, name="load_weights", started_at=BEGAN, done=3, total=9, unit="shards"))

    line = section_text(written(tmp_path, [SESSION, LAUNCH], change), "now")[0]
    assert "is loading: load_weights 3/9 shards (33.3 %), time left not known" in line
    assert line.endswith("; suspect: no progress for 600 s")


def test_progress_alone_makes_no_new_facts(tmp_path: Path) -> None:
    def digest_with(done: int, folder: str) -> str:
        from sitrepd.checkpoints.collect import digest
        from sitrepd.sections import Section

        live = {"launches": {1: LiveLaunch(state="loading", done=done, total=64, remaining_s=done * 1.5, pid=7)}}
        rendered = written(tmp_path / folder, [SESSION, LAUNCH | {"at": "2026-12-01T03:00:00Z"}], watched(), live)
        return digest([Section(**one) for one in rendered["sections"] if one["name"] == "now"])

    assert digest_with(1, "a") == digest_with(60, "b")


def test_an_imported_state_is_never_a_running_process(tmp_path: Path) -> None:
    line = section_text(written(tmp_path, [SESSION, LAUNCH]), "now")[0]
    told = "- L1 three steps was told as loading when imported from reference-session.jsonl, not observed here"
    assert line.startswith(told)
    assert "time left" not in line


def test_failures_are_news_until_a_later_start_gets_ready(tmp_path: Path) -> None:
    failed = {"type": "launch", "name": "a", "state": "failed", "exit_code": 1, "command": "serve --a"}

    def change(db: Session) -> None:
        watched(1, failure="CUDA out of memory\nTried to allocate 3 GiB", ended_at=BEGAN)(db)

    now = section_text(written(tmp_path / "x", [SESSION, failed], change), "now")
    assert now[0] == "- No launch of this session is alive, as far as is known"
    assert now[1].startswith(
        "- L1 a failed with exit code 1; started 2026-12-01T03:00:00Z, ended 2026-12-01T03:00:00Z; cause:"
    )
    assert now[2:6] == ["```text", "CUDA out of memory", "Tried to allocate 3 GiB", "```"]
    later = failed | {"state": "ready", "ready_at": "2026-12-01T04:00:00Z"}
    assert not any(
        line.startswith("- L1") for line in section_text(written(tmp_path / "y", [SESSION, failed, later]), "now")
    )


def test_the_history_holds_outcome_and_exact_command(tmp_path: Path) -> None:
    told = {
        "type": "launch", "state": "exited", "exit_code": 0, "command": "serve --b  'x  y' > log 2>&1 &", "port": 8000,
        "ready_at": "2026-12-01T03:16:00Z", "log_path": "/l", "at": "2026-12-01T03:00:00Z",
        "phases": [{"name": "load_weights", "started_at": "2026-12-01T03:00:00Z", "ended_at": "2026-12-01T03:15:00Z"}],
    }  # fmt: skip

    def change(db: Session) -> None:
        db.add(LaunchSize(launch_id=1, name="weights", role="target", rank="0", value=76 << 30, unit="bytes"))
        db.add(LaunchSize(launch_id=1, name="kv_tokens", rank="0", value=500000, unit="tokens"))

    lines = section_text(written(tmp_path, [SESSION, told], change), "launches")
    assert lines[0] == (
        "- L1 exited with exit code 0 (told); port 8000, ready 2026-12-01T03:16:00Z, log /l; load_weights 900.0 s; "
        "weights of target 81.6 GB (81604378624 bytes); kv_tokens 500000 tokens"
    )
    assert lines[1:] == ["```sh", "serve --b  'x  y' > log 2>&1 &", "```"]


def test_a_launch_without_a_command_says_so(tmp_path: Path) -> None:
    lines = section_text(written(tmp_path, [SESSION, {"type": "launch", "name": "a"}]), "launches")
    assert lines == ["- L1 a in a state that was not recorded", "  Its command was not recorded."]


def test_other_sessions_take_gpus_too_but_are_no_facts_of_this_one(tmp_path: Path) -> None:
    def change(db: Session) -> None:
        watched(1, session_id=None, state="ready")(db)

    rendered = written(tmp_path, [SESSION, LAUNCH], change)
    assert "- L1 three steps is ready on this daemon too, of no session" in section_text(rendered, "now")
    item = rendered["sections"][0]["items"][-1]
    assert item["volatile"] or rendered["sections"][0]["items"][0]["volatile"]


def test_many_launches_are_bounded_and_the_rest_is_counted(tmp_path: Path) -> None:
    many = [LAUNCH | {"name": f"n{n}", "state": "exited"} for n in range(60)]
    rendered = written(tmp_path, [SESSION, *many])
    section = next(one for one in rendered["sections"] if one["name"] == "launches")
    assert (section["items"][0]["id"], len(section["items"]), section["data"]["earlier"]) == ("L60", 50, 10)
    assert "10 earlier ones (`sitrep launch list`)" in render(rendered, "md", None, SHIPPED)


@pytest.mark.parametrize(
    ("told", "one_line"),
    [
        ("serve --a 1", "serve --a 1"),
        ("serve \\\n  --a 1 \\\r\n\t--b", "serve --a 1 --b"),
        ("serve\\\n  --a", "serve --a"),
        ("ser\\\nve", "serve"),
        ("echo 'a\\\n b' \\\n c", "echo 'a\\\n b' c"),
        ('echo "a\\\n b"', 'echo "a b"'),
        ("echo \\' \\\n x", "echo \\' x"),
        ("cd /x\nserve", "cd /x\nserve"),
    ],
)
def test_lines_that_a_shell_joins_are_joined(told: str, one_line: str) -> None:
    assert joined(told) == one_line


def test_a_server_that_was_stopped_is_not_said_to_have_died_of_a_signal(tmp_path: Path) -> None:
    def change(db: Session) -> None:
        ended = {"state": "exited", "ended_at": BEGAN, "exit_signal": 9}
        watched(**ended, process={"stop_asked_at": "2026-12-01T03:00:00Z"}, from_launch_id=2)(db)
        watched(2, **ended, process={})(db)

    lines = section_text(written(tmp_path, [SESSION, LAUNCH, {**LAUNCH, "name": "other"}], change), "launches")
    assert any(line.startswith("- L1 three steps exited, stopped on request; sglang, repeats L2") for line in lines)
    assert any(line.startswith("- L2 other exited by signal 9") for line in lines)
