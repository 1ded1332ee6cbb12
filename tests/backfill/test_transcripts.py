"""Conversations that clients have stored, told once: what users said, what was run, what was measured."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.agents.calling import API, facts, hook
from tests.backfill.projects import write
from tests.cli.running import Sitrep
from tests.daemons import Daemon, application, running_daemon

from sitrepd.backfill.transcripts.find import command, find, message

KEY = "sk-" + "a1B2c3D4" * 5
CONVERSATION = "179ee038-e707-4efe-9a0f-a3ad579fdd91"
SERVE = "python -m sglang.launch_server --model-path /models/kimi --tp 8 --port 30000"
BENCH = "python -m sglang.bench_serving --backend sglang --port 30000"
PRINTED = """
============ Serving Benchmark Result ============
Backend:                                 sglang
Traffic request rate:                    inf
Max request concurrency:                 1
Successful requests:                     8
Benchmark duration (s):                  24.51
Total input tokens:                      4096
Total generated tokens:                  2304
Request throughput (req/s):              0.33
Input token throughput (tok/s):          167.11
Output token throughput (tok/s):         94.00
Total token throughput (tok/s):          261.11
==================================================
"""


def line(kind: str, at: str, message: Any = None, **more: Any) -> dict[str, Any]:
    told = {"type": kind, "timestamp": f"2026-11-02T{at}Z", "sessionId": CONVERSATION, "cwd": "/home/dev/work",
            "uuid": f"u-{at}-{kind}", "isSidechain": False}  # fmt: skip
    return told | ({"message": message} if message else {}) | more


def user(at: str, content: Any, **more: Any) -> dict[str, Any]:
    return line("user", at, {"role": "user", "content": content}, **more)


def bash(at: str, name: str, words: str, **more: Any) -> dict[str, Any]:
    use = {"type": "tool_use", "id": name, "name": "Bash", "input": {"command": words, **more}}
    return line("assistant", at, {"role": "assistant", "content": [use]})


def answered(at: str, name: str, printed: str, result: Any = None, failed: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": name, "content": printed, "is_error": failed}
    return user(at, [block], toolUseResult=result or {"stdout": printed, "stderr": ""})


def claude() -> list[dict[str, Any]]:
    """As version 2.1 writes it, shortened."""
    background = "Command running in background with ID: b1."
    ended = (
        "<task-notification>\n<task-id>b1</task-id>\n<tool-use-id>t1</tool-use-id>\n<status>failed</status>\n"
        "<summary>Background command failed (exit code 137)</summary>\n</task-notification>"
    )
    return [
        {"type": "queue-operation", "operation": "enqueue", "timestamp": "2026-11-02T10:00:00Z", "sessionId": CONVERSATION},
        user("10:00:01", f"Never quantize the KV cache.  My key is {KEY}\n"),
        bash("10:00:05", "t1", SERVE, run_in_background=True),
        answered("10:00:06", "t1", background, {"stdout": "", "stderr": "", "backgroundTaskId": "b1"}),
        user("10:05:00", ended, origin={"kind": "task-notification"}, promptSource="system"),
        bash("10:06:00", "t2", "ls -l"),
        answered("10:06:01", "t2", "total 0"),
        bash("10:07:00", "t3", BENCH),
        answered("10:08:00", "t3", PRINTED),
        bash("10:09:00", "t4", "pip install flash-attn"),
        answered("10:09:09", "t4", "Exit code 1\nno wheel", "Error: Exit code 1\nno wheel", failed=True),
        user("10:10:00", [{"type": "text", "text": "<system-reminder>\nNoise\n</system-reminder>"},
                          {"type": "text", "text": "And now?"}, {"type": "image", "source": {}}]),
        user("10:11:00", "<command-message>sitrep:sitrep</command-message>\n<command-name>/sitrep:sitrep</command-name>\n"
                         "<command-args>gpu</command-args>"),
        user("10:11:01", [{"type": "text", "text": "Words of the command's file"}], isMeta=True),
        user("10:12:00", "<bash-input>pip install vllm</bash-input>"),
        user("10:12:05", "<bash-stdout>Successfully installed</bash-stdout><bash-stderr></bash-stderr>"),
        user("10:13:00", "This session is being continued …", isCompactSummary=True, isVisibleInTranscriptOnly=True),
        user("10:13:01", "<local-command-stdout>Compacted</local-command-stdout>"),
        user("10:14:00", "Look around", isSidechain=True),
        user("10:15:00", "[Request interrupted by user]"),
        line("attachment", "10:16:00",
             attachment={"type": "queued_command", "prompt": "Prefer 2 steps.", "commandMode": "prompt"}),
        user("10:17:00", "."),
    ]  # fmt: skip


def transcript(path: Path, lines: list[dict[str, Any]]) -> Path:
    write(path, "".join(json.dumps(one) + "\n" for one in lines))
    return path


SAID = ["And now?", "/sitrep:sitrep gpu", "Prefer 2 steps.", "."]


def test_what_the_user_said_in_claude_code_is_kept_word_for_word(tmp_path: Path) -> None:
    told = find([str(transcript(tmp_path / "c.jsonl", claude()))])
    own = [said.text for _, said in told.said if not said.synthetic]
    assert own == [f"Never quantize the KV cache.  My key is {KEY}\n", *SAID]
    assert [said.text[:19] for _, said in told.said if said.synthetic] == ["<task-notification>"]
    done = [(one.ran.command, one.ran.exit_code, one.ran.cwd) for _, one, _ in told.done]
    assert done == [
        (SERVE, 137, "/home/dev/work"), (BENCH, 0, "/home/dev/work"), ("pip install flash-attn", 1, "/home/dev/work"),
        ("pip install vllm", None, "/home/dev/work"),
    ]  # fmt: skip
    assert told.other_commands == 1
    (run,) = told.results
    assert str(run.fact["metrics"]["output_throughput"]["value"]) == "94.00"
    assert run.ended_at.isoformat() == "2026-11-02T10:08:00+00:00"


def test_a_conversation_that_was_copied_when_it_went_on_counts_once(tmp_path: Path) -> None:
    transcript(tmp_path / "p" / "a.jsonl", claude())
    more = [one | {"sessionId": "another"} for one in claude()] + [user("11:00:00", "More", sessionId="another")]
    transcript(tmp_path / "p" / "b.jsonl", more)
    told = find([str(tmp_path)])
    assert [said.text for _, said in told.said if not said.synthetic][1:] == [*SAID, "More"]
    assert len(told.done) == 4
    assert len(told.conversations) == 2


def opencode() -> tuple[dict[str, Any], list[tuple[dict[str, Any], list[dict[str, Any]]]]]:
    """As version 1.18 stores it, shortened: the conversation and its messages with their parts."""
    state = {"status": "completed", "input": {"command": BENCH}, "output": PRINTED, "metadata": {"exit": 0},
             "time": {"start": 1793613660000, "end": 1793613720500}}  # fmt: skip
    asked = {"type": "text", "text": "Always use tp 8.\n"}
    read = {"type": "text", "text": "Called the Read tool", "synthetic": True}
    go_on = {"type": "text", "text": "Continue if you have next steps, or stop.", "synthetic": True}
    tool = {"type": "tool", "tool": "bash", "callID": "c1", "state": state}
    return {"id": "ses_1", "directory": "/home/dev/work"}, [
        ({"id": "msg_1", "role": "user", "time": {"created": 1793613600000}}, [asked, read]),
        ({"id": "msg_2", "role": "assistant", "path": {"cwd": "/home/dev/work"}}, [{"type": "step-start"}, tool]),
        ({"id": "msg_3", "role": "user", "time": {"created": 1793613800000}}, [{"type": "compaction", "auto": True}]),
        ({"id": "msg_4", "role": "assistant", "summary": True}, [{"type": "text", "text": "A summary"}]),
        ({"id": "msg_5", "role": "user", "time": {"created": 1793613900000}}, [go_on]),
    ]


def as_database(path: Path) -> Path:
    info, messages = opencode()
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE session (id TEXT, directory TEXT, parent_id TEXT, time_created INTEGER)")
        db.execute("CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT)")
        db.execute("CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT)")
        db.execute("INSERT INTO session VALUES (?, ?, NULL, 1)", (info["id"], info["directory"]))
        db.execute("INSERT INTO session VALUES ('ses_child', '/home/dev/work', 'ses_1', 2)")
        db.execute("INSERT INTO message VALUES ('msg_9', 'ses_child', 9, ?)", (json.dumps(messages[0][0]),))
        db.execute(
            "INSERT INTO part VALUES ('prt_9', 'msg_9', 'ses_child', ?)", (json.dumps({"type": "text", "text": "Sub"}),)
        )
        for at, (told, parts) in enumerate(messages):
            rest = {name: value for name, value in told.items() if name != "id"}
            db.execute("INSERT INTO message VALUES (?, 'ses_1', ?, ?)", (told["id"], at, json.dumps(rest)))
            for number, part in enumerate(parts):
                place = f"prt_{at}{number}"
                db.execute("INSERT INTO part VALUES (?, ?, 'ses_1', ?)", (place, told["id"], json.dumps(part)))
        db.commit()
    return path


def as_folder(top: Path) -> Path:
    info, messages = opencode()
    write(top / "storage" / "session" / "project" / "ses_1.json", json.dumps(info))
    for told, parts in messages:
        write(top / "storage" / "message" / "ses_1" / f"{told['id']}.json", json.dumps(told))
        for number, part in enumerate(parts):
            write(top / "storage" / "part" / told["id"] / f"prt_{number}.json", json.dumps(part))
    return top


def as_export(path: Path) -> Path:
    info, messages = opencode()
    write(path, json.dumps({"info": info, "messages": [{"info": told, "parts": parts} for told, parts in messages]}))
    return path


@pytest.mark.parametrize("kept", ["database", "folder", "export"])
def test_opencode_is_read_however_it_was_kept(tmp_path: Path, kept: str) -> None:
    made = {"database": as_database, "folder": as_folder, "export": as_export}[kept](tmp_path / "opencode.db")
    told = find([str(made)])
    assert [(said.text, said.synthetic) for _, said in told.said] == [
        ("Always use tp 8.\n", False), ("Continue if you have next steps, or stop.", True),
    ]  # fmt: skip
    ((_, done, results),) = told.done
    assert (done.ran.command, done.ran.exit_code, done.ran.duration_ms) == (BENCH, 0, 60500)
    assert results == [told.results[0].key]
    assert told.conversations[0].folder == "/home/dev/work"


def test_what_is_none_is_named_and_what_is_broken_loses_nothing_else(tmp_path: Path) -> None:
    write(tmp_path / "notes.jsonl", '{"a": 1}\n')
    (tmp_path / "x.db").write_bytes(b"SQLite format 3\0 and then nothing")
    path = transcript(tmp_path / "c.jsonl", claude())
    with path.open("ab") as file:
        file.write(b'{"type": "user", "cut off\n[1]\n"text"\n{"type": "user", "sessionId": "s", "timestamp": 7}\n')
        file.write(
            b'{"type":"user","sessionId":"s","timestamp":"2026-11-02T12:00:00Z","message":{"content":"a\\u0000b\\ud800"}}'
        )
    told = find([str(tmp_path / "notes.jsonl"), str(tmp_path / "x.db"), str(path)])
    reasons = [one.reason for one in told.not_understood]
    assert reasons[0] == "no conversation of Claude Code or opencode"
    assert "cannot be read" in reasons[1]
    assert reasons[2] == "1 of its lines are no JSON; the others were read"
    assert told.said[-1][1].text == "a\ufffdb\ufffd"
    assert len(told.said) == 7


def test_a_very_long_message_says_where_all_of_it_is(tmp_path: Path) -> None:
    path = transcript(tmp_path / "c.jsonl", [user("10:00:01", "x" * 300_000)])
    ((of, said),) = find([str(path)]).said
    text = message(of, said)["fact"]["text"]
    assert text.endswith(f"[… 100000 more characters; all 300000 are in {path}]")


# --- told --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sitrep, Daemon]]:
    folder = tmp_path_factory.mktemp("served")
    with running_daemon(folder / "store") as daemon:
        sitrep = Sitrep(folder / "store", folder)
        sitrep("session", "open", "old work").ok()
        yield sitrep, daemon


@pytest.mark.slow
def test_twice_is_as_once_and_secrets_are_replaced(served: tuple[Sitrep, Daemon], tmp_path: Path) -> None:
    sitrep, daemon = served
    path = transcript(tmp_path / "c.jsonl", claude())
    dry = sitrep("backfill", "--transcript", str(path), "--dry-run").ok().out
    assert KEY not in dry
    assert "Nothing was stored" in dry
    assert facts(daemon.client, "messages") == []
    first = sitrep("backfill", "--transcript", str(path), "--json").json
    assert {one["outcome"] for one in first["messages"] + first["commands"] + first["benchmarks"]} == {"new"}
    kept = facts(daemon.client, "messages")
    assert [one["number"] for one in kept] == [1, 2, 3, 4, 5, 6]
    assert [one["text"] for one in kept if not one["synthetic"]][1:] == SAID
    assert kept[0]["at"].startswith("2026-11-02T10:00:01")
    assert KEY not in json.dumps([kept, first])
    wishes = [(one["text"], one["message"], one["proposed"]) for one in facts(daemon.client, "directives")]
    assert wishes == [("Never quantize the KV cache.", 1, True), ("Prefer 2 steps.", 5, True)]
    measured = next(one for one in facts(daemon.client, "commands") if one["command"] == BENCH)
    assert measured["results"] == [first["benchmarks"][0]["id"]]
    assert measured["provenance"] == f"imported from {path}"
    (run,) = facts(daemon.client, "benchmarks")
    assert run["metrics"]["output_throughput"]["value"] == 94.0
    again = sitrep("backfill", "--transcript", str(tmp_path), "--json").json
    assert {one["outcome"] for one in again["messages"] + again["commands"] + again["benchmarks"]} == {"known"}
    assert facts(daemon.client, "messages") == kept
    # What comes later is added, and a command that has ended since is brought up to date.
    transcript(path, [*claude(), user("12:00:00", "Go on")])
    more = sitrep("backfill", "--transcript", str(path)).ok().out
    assert "7 messages in S1: 1 new, 6 known before" in more


def test_what_hooks_have_told_already_is_known(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        client.post(f"{API}/sessions", json={"name": "work"})
        hook(client, "claude-code", "UserPromptSubmit", prompt="Never guess.")
        hook(client, "claude-code", "PostToolUse", tool_name="Bash", tool_input={"command": SERVE}, tool_response={})
        said, ran = facts(client, "messages")[0], facts(client, "commands")[0]
        told = find([str(transcript(tmp_path / "c.jsonl", _as_heard(said["at"], ran["at"])))])
        body = {
            "messages": [plain(message(*one)) for one in told.said],
            "commands": [plain(command(*one)) for one in told.done],
        }
        settled = client.post(f"{API}/backfill", json=body).json()["facts"]
        assert [one["outcome"] for one in settled] == ["known", "known"]
        assert len(facts(client, "messages")) == len(facts(client, "commands")) == 1
        # What was said long ago is not the last message, though it was read in last.
        old = find([str(transcript(tmp_path / "old.jsonl", [user("09:00:00", "Long ago")]))])
        client.post(f"{API}/backfill", json={"messages": [plain(message(*one)) for one in old.said]}).raise_for_status()
        assert "Last message: number 1, user" in client.post(f"{API}/sessions/current/resume", json={}).text


def _as_heard(said: str, ran: str) -> list[dict[str, Any]]:
    return [
        user("", "Never guess.") | {"timestamp": said},
        bash("", "t1", SERVE) | {"timestamp": ran},
        answered("", "t1", "") | {"timestamp": ran},
    ]


def plain(told: dict[str, Any]) -> Any:
    return json.loads(
        json.dumps(told, default=lambda one: one.isoformat() if hasattr(one, "isoformat") else float(one))
    )


def test_a_run_that_its_file_has_told_is_not_told_again_by_what_was_printed(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        client.post(f"{API}/sessions", json={"name": "work"})
        exact = {"completed": 8, "duration": 24.5098, "output_throughput": 94.0039}
        fact = {"name": "exact", "metrics": {name: {"value": value} for name, value in exact.items()}}
        client.post(f"{API}/benchmarks", json=fact).raise_for_status()
        assert _settle(client, transcript(tmp_path / "c.jsonl", claude())) == ["known"]
        assert len(facts(client, "benchmarks")) == 1


def _settle(client: TestClient, path: Path) -> list[str]:
    from sitrepd.backfill import told

    (part,) = told.benchmarks(find([str(path)]).results)
    return [one["outcome"] for one in client.post(f"{API}/backfill", json=plain({"benchmarks": part})).json()["facts"]]
