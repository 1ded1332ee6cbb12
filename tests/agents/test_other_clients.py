"""Codex and Gemini CLI, and whatever comes that is not as it should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.agents.calling import API, call, context, facts, hook, payload
from tests.helpers import wait_until

CODEX = {"turn_id": "01a22f6f-ee28", "model": "m", "permission_mode": "default"}


@pytest.fixture
def session(client: TestClient) -> TestClient:
    client.post(f"{API}/sessions", json={"name": "tuning"}).raise_for_status()
    client.post(f"{API}/directives", json={"text": "No hacks that cut precision."}).raise_for_status()
    return client


@pytest.mark.slow
@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact"])
def test_codex_gets_the_checkpoint_at_a_start(session: TestClient, source: str) -> None:
    assert "No hacks" in context(session, "codex", "SessionStart", source=source, **CODEX)
    assert [one["to"] for one in facts(session, "deliveries")] == ["codex"]


def test_codex_gets_one_copy_where_it_resumes_into_a_compaction(session: TestClient) -> None:
    hook(session, "codex", "PreCompact", trigger="auto", **CODEX)
    assert "No hacks" in context(session, "codex", "SessionStart", source="resume", **CODEX)
    assert hook(session, "codex", "SessionStart", source="compact", **CODEX) == ""
    assert "No hacks" in context(session, "codex", "SessionStart", source="compact", **CODEX)
    context(session, "codex", "SessionStart", source="resume", **CODEX)
    hook(session, "codex", "PreCompact", trigger="auto", **CODEX)
    assert "No hacks" in context(session, "codex", "SessionStart", source="compact", **CODEX)


@pytest.mark.slow
def test_codex_counts_bytes(session: TestClient) -> None:
    for number in range(30):
        session.post(f"{API}/next-steps", json={"text": f"{number} {'測' * 300}"}).raise_for_status()
    text = context(session, "codex", "SessionStart", source="compact", **CODEX)
    assert 6_000 < len(text.encode()) <= 10_000


def test_codex_has_no_place_for_instructions_before_a_compaction(session: TestClient) -> None:
    assert hook(session, "codex", "PreCompact", trigger="auto", **CODEX) == ""
    assert [one["trigger"] for one in facts(session, "checkpoints")] == ["before compaction"]
    assert hook(session, "codex", "PostCompact", trigger="auto", **CODEX) == ""
    assert facts(session, "compactions") == []


def test_codex_is_listened_to(session: TestClient) -> None:
    context(session, "codex", "SessionStart", source="startup", **CODEX)
    assert hook(session, "codex", "UserPromptSubmit", prompt="Never guess.", **CODEX) == ""
    assert "Never guess." in context(session, "codex", "UserPromptSubmit", prompt=".", **CODEX)
    told = {"tool_name": "Bash", "tool_input": {"command": "vllm serve x"}, "tool_response": "ok\n", "tool_use_id": "c"}
    assert hook(session, "codex", "PostToolUse", **told, **CODEX) == ""
    mcp = {"tool_name": "mcp__sitrep__get_checkpoint", "tool_input": {}, "tool_response": {"content": []}}
    assert hook(session, "codex", "PostToolUse", **mcp, **CODEX) == ""
    assert [(one["kind"], one["output"]) for one in facts(session, "commands")] == [("server", "ok")]
    assert hook(session, "codex", "Stop", stop_hook_active=False, last_assistant_message="From C1.", **CODEX) == ""
    assert [one["echoed"] for one in facts(session, "deliveries")] == [True, False]
    assert hook(session, "codex", "SessionEnd", reason="other") == ""


def test_gemini_gets_it_with_the_first_prompt_and_where_the_user_asks(session: TestClient) -> None:
    assert hook(session, "gemini", "SessionStart", source="startup", timestamp="2026-12-01T02:34:09Z") == ""
    assert "No hacks" in context(session, "gemini", "BeforeAgent", prompt="Always answer briefly.")
    begun = context(session, "gemini", "BeforeAgent", prompt="Again.")
    assert "No hacks" in begun, "the first one came too late to be taken"
    messages = [{"role": "user", "content": f"Again.<hook_context>{begun}</hook_context>"}]
    assert hook(session, "gemini", "BeforeModel", llm_request={"messages": messages}) == ""
    prompt = "<hook_context>Sitrep C1 &lt;x&gt;</hook_context>\n\nGo on."
    assert hook(session, "gemini", "BeforeAgent", prompt=prompt) == ""
    assert [one["text"] for one in facts(session, "messages")] == ["Always answer briefly.", "Again.", "Go on."]
    assert "No hacks" in context(session, "gemini", "BeforeAgent", prompt="<hook_context>x</hook_context>\n\n.")
    assert hook(session, "gemini", "AfterAgent", prompt="x", prompt_response="As C1 says.") == ""
    assert hook(session, "gemini", "PreCompress", trigger="auto") == ""
    told = {"tool_name": "run_shell_command", "tool_input": {"command": "pip install x"}}
    assert hook(session, "gemini", "AfterTool", **told, tool_response={"llmContent": "done"}) == ""
    assert facts(session, "commands")[0]["kind"] == "install"
    assert hook(session, "gemini", "SessionEnd", reason="exit") == ""
    assert "No hacks" in context(
        session, "gemini", "BeforeAgent", session_id="another", prompt="Begun without a start."
    )


def test_after_a_compression_of_gemini_each_request_carries_it_beside_the_summary(session: TestClient) -> None:
    def asked(*texts: str) -> str:
        messages = [{"role": "user", "content": text} for text in texts]
        return hook(session, "gemini", "BeforeModel", llm_request={"model": "m", "messages": messages, "config": {}})

    assert asked("env", "Sitrep C1 · S1 x · handed over now", "Go on.") == ""
    assert asked("env", "Go on.") == "", "a sub-agent, or a conversation of before"
    summary = "<state_snapshot>Sitrep C1 · S1 x · handed over long ago</state_snapshot>"
    told = json.loads(asked("env", summary, "Got it.", "Go on."))["hookSpecificOutput"]
    assert told["hookEventName"] == "BeforeModel"
    first, second = told["llm_request"]["messages"]
    assert first == {"role": "user", "content": "env"}
    assert second["content"].startswith(f"{summary}\n\n<hook_context>Sitrep C")
    assert "No hacks" in second["content"]
    assert json.loads(asked("env", summary, "Got it.", "More."))["hookSpecificOutput"] == told, "the same bytes"
    wait_until(lambda: len(facts(session, "compactions")) == 1)
    session.post(f"{API}/next-steps", json={"text": "Measure 3 steps."}).raise_for_status()
    assert "Measure 3 steps." in asked("env", summary, "Got it.", "More.")
    assert asked("env", summary, "Got it.", "status", "Sitrep C3 · S1 x · handed over now as delivery 9") == ""
    assert asked() == ""
    assert hook(session, "gemini", "BeforeModel", llm_request="of a later version") == ""


# --- which session -----------------------------------------------------------------------------------------------


def two_sessions(client: TestClient, tmp_path: Path) -> tuple[Path, Path]:
    """S1 and S2, each with a folder that is tied to it."""
    folders = (tmp_path / "one", tmp_path / "two")
    for folder in folders:
        folder.mkdir()
        number = client.post(f"{API}/sessions", json={"name": folder.name}).json()["id"]
        client.post(f"{API}/sessions/{number}/folders", json={"path": str(folder)}).raise_for_status()
    return folders


def say(client: TestClient, words: str, **fields: Any) -> None:
    hook(client, "claude-code", "UserPromptSubmit", prompt=words, **fields)


def test_a_conversation_stays_with_its_session_wherever_it_goes_on(client: TestClient, tmp_path: Path) -> None:
    one, two = two_sessions(client, tmp_path)
    say(client, "begun in one", session_id="a", cwd=str(one))
    say(client, "another client in the same folder", session_id="b", cwd=str(one))
    say(client, "resumed on another machine", session_id="a", cwd="/home/somebody/else")
    say(client, "the agent went into another folder", session_id="a", cwd=str(two))
    say(client, "begun in two", session_id="c", cwd=str(two))
    found = [(one["session"], one["text"]) for one in facts(client, "messages")]
    assert found == [
        ("S1", "begun in one"),
        ("S1", "another client in the same folder"),
        ("S1", "resumed on another machine"),
        ("S1", "the agent went into another folder"),
        ("S2", "begun in two"),
    ]
    headers = {"X-Sitrep-Conversation": "a"}
    assert client.get(f"{API}/sessions/current", headers=headers).json()["id"] == "S1"


def test_a_folder_that_is_tied_anew_takes_its_conversations_along(client: TestClient, tmp_path: Path) -> None:
    one, _ = two_sessions(client, tmp_path)
    say(client, "first", session_id="a", cwd=str(one))
    told = {"path": str(one), "move": True}
    client.post(f"{API}/sessions/S2/folders", json=told).raise_for_status()
    say(client, "second", session_id="a", cwd=str(one))
    assert [one["session"] for one in facts(client, "messages")] == ["S1", "S2"]


def test_a_told_session_goes_before_all(client: TestClient, tmp_path: Path) -> None:
    one, _ = two_sessions(client, tmp_path)
    told = payload("UserPromptSubmit", prompt="x", cwd=str(one))
    call(client, "claude-code", "UserPromptSubmit", told, **{"X-Sitrep-Session": "S2"})
    assert [one["session"] for one in facts(client, "messages")] == ["S2"]


@pytest.mark.slow
def test_of_a_closed_session_nothing_more_is_meant(client: TestClient, tmp_path: Path) -> None:
    one, _ = two_sessions(client, tmp_path)
    say(client, "x", session_id="a", cwd=str(one))
    client.post(f"{API}/sessions/S1/close").raise_for_status()
    say(client, "y", session_id="a", cwd=str(one))
    assert [one["session"] for one in facts(client, "messages")] == ["S1", "S2"]


def test_where_it_is_not_clear_it_says_so_in_one_line(client: TestClient, tmp_path: Path) -> None:
    line = context(client, "claude-code", "SessionStart", source="startup", cwd=str(tmp_path))
    assert line.startswith("Sitrep has no checkpoint for this conversation: No session is open.")
    two_sessions(client, tmp_path)
    line = context(client, "codex", "SessionStart", source="startup", cwd=str(tmp_path))
    assert "2 sessions are open: S1 (one), S2 (two)" in line
    assert "\n" not in line
    assert hook(client, "claude-code", "UserPromptSubmit", prompt="x", cwd=str(tmp_path)) == ""
    assert hook(client, "claude-code", "PreCompact", trigger="auto", cwd=str(tmp_path)) == ""
    assert "2 sessions are open" in call(client, "opencode", "system", {"sessionID": "s", "directory": "/"}).text


# --- bad input ---------------------------------------------------------------------------------------------------


def test_a_client_or_event_that_is_not_known(session: TestClient) -> None:
    assert session.post(f"{API}/hooks/emacs/SessionStart", content=b"{}").status_code == 404
    assert hook(session, "claude-code", "OfALaterVersion", anything=[1]) == ""
    assert session.post(f"{API}/hooks/claude-code/Stop", content=b"no json").status_code == 422
    assert session.post(f"{API}/hooks/claude-code/Stop", content=b"[" * 10_000).status_code == 422


@pytest.mark.parametrize(
    "event",
    [
        "session-start",
        "user-prompt-submit",
        "post-compact",
        "stop",
        "post-tool-use",
        "notification",
        "session-end",
        "pre-compact",
    ],
)
@pytest.mark.parametrize("agent", ["claude-code", "codex"])
def test_fields_of_other_kinds_do_no_harm(session: TestClient, agent: str, event: str) -> None:
    names = (
        "session_id", "transcript_path", "cwd", "source", "prompt", "trigger", "compact_summary", "tool_name",
        "tool_input", "tool_response", "tool_use_id", "last_assistant_message", "background_tasks", "prompt_id", "reason",
    )  # fmt: skip
    for value in (None, 7, [], [1, None], {}, {"a": 1}, True, "", "x" * 300):
        answer = session.post(f"{API}/hooks/{agent}/{event}", content=json.dumps(dict.fromkeys(names, value)))
        assert answer.status_code == 200, (value, answer.text)


def test_a_payload_longer_than_any_prompt_is_refused(session: TestClient) -> None:
    answer = session.post(f"{API}/hooks/claude-code/Stop", content=b" " * (65 << 20))
    assert answer.status_code == 422
