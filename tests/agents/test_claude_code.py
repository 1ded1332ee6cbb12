"""Claude Code: each event as it sends it, and what it is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.agents.calling import API, CONVERSATION, call, context, facts, hook, payload
from tests.helpers import wait_until

from sitrepd.agents import waking
from sitrepd.notices.news import News

CLIENT = "claude-code"


@pytest.fixture
def session(client: TestClient) -> TestClient:
    client.post(f"{API}/sessions", json={"name": "tuning", "goal": "Beat 88.8 tok/s."}).raise_for_status()
    client.post(f"{API}/directives", json={"text": "No hacks that cut precision."}).raise_for_status()
    client.post(
        f"{API}/findings",
        json={"kind": "rejected", "title": "FP8 KV cache", "reason": "halves the accept rate", "status": "confirmed"},
    ).raise_for_status()
    return client


@pytest.mark.slow
@pytest.mark.parametrize("source", ["startup", "resume", "clear", "compact", "fork", "of-a-later-version"])
def test_a_start_gets_the_whole_checkpoint(session: TestClient, source: str) -> None:
    text = context(session, CLIENT, "SessionStart", source=source, seconds_since_last_response=1, new_field={"x": 1})
    assert text.startswith("Sitrep C1 · S1 tuning · handed over ")
    assert "No hacks that cut precision." in text
    assert "FP8 KV cache" in text
    assert [(one["to"], one["conversation"]) for one in facts(session, "deliveries")] == [(CLIENT, CONVERSATION)]


def test_line_1_differs_each_time(session: TestClient) -> None:
    lines = {context(session, CLIENT, "SessionStart", source="compact").split("\n")[0] for _ in range(3)}
    assert len(lines) == 3


@pytest.mark.slow
def test_two_byte_letters_are_counted_as_bytes(session: TestClient) -> None:
    for number in range(40):
        told = {"text": f"{number} " + "é" * 400}
        session.post(f"{API}/next-steps", json=told).raise_for_status()
    text = context(session, CLIENT, "SessionStart", source="startup")
    assert len(text.encode()) > 6_000


def test_before_a_compaction_a_checkpoint_is_made_and_the_summariser_told_what_to_keep(session: TestClient) -> None:
    text = hook(session, CLIENT, "PreCompact", trigger="auto", custom_instructions=None)
    assert not text.startswith("{")
    assert "D1: No hacks that cut precision." in text
    assert "FP8 KV cache" in text
    assert "handed over" not in text
    assert [(one["id"], one["trigger"]) for one in facts(session, "checkpoints")] == [("C1", "before compaction")]
    assert facts(session, "deliveries") == []


def test_the_clients_summary_is_kept_with_what_it_lost(session: TestClient) -> None:
    session.post(f"{API}/next-steps", json={"text": "Benchmark 3 steps at concurrency 16."}).raise_for_status()
    hook(session, CLIENT, "PreCompact", trigger="manual", custom_instructions="focus")
    summary = "<analysis>No hacks that cut precision</analysis>\n<summary>FP8 KV cache was rejected.</summary>"
    assert hook(session, CLIENT, "PostCompact", trigger="manual", compact_summary=summary) == ""
    (kept,) = facts(session, "compactions")
    assert kept["summary"] == summary
    assert (kept["trigger"], kept["checkpoint"], kept["client"]) == ("manual", "C1", CLIENT)
    assert [one["id"] for one in kept["lost"]] == ["N1", "S1", "D1"]


def test_a_start_that_was_never_heard_of_is_made_up_for_by_the_first_prompt_and_by_no_other(
    session: TestClient,
) -> None:
    text = context(session, CLIENT, "UserPromptSubmit", prompt="Go on.")
    assert text.startswith("Sitrep C1 · S1 tuning · handed over ")
    assert "No hacks that cut precision." in text
    assert hook(session, CLIENT, "UserPromptSubmit", prompt="Go on.") == ""
    other = payload("UserPromptSubmit", prompt="Never look.") | {"session_id": "other", "agent_id": "a1"}
    assert call(session, CLIENT, "UserPromptSubmit", other).text == "", "a sub-agent is not meant"


def test_after_a_compaction_whose_start_was_lost_the_next_command_brings_it(session: TestClient) -> None:
    context(session, CLIENT, "SessionStart", source="startup")
    hook(session, CLIENT, "PreCompact", trigger="auto", custom_instructions=None)
    ran = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_response": {"stdout": "x"}}
    assert hook(session, CLIENT, "PostToolUse", **ran, agent_id="a1") == ""
    assert "No hacks that cut precision." in context(session, CLIENT, "PostToolUse", **ran)
    assert hook(session, CLIENT, "PostToolUse", **ran) == ""
    hook(session, CLIENT, "PreCompact", trigger="auto", custom_instructions=None)
    context(session, CLIENT, "SessionStart", source="compact")
    assert hook(session, CLIENT, "UserPromptSubmit", prompt="Go on.") == ""


def test_messages_are_kept_word_for_word_by_their_numbers(session: TestClient) -> None:
    context(session, CLIENT, "SessionStart", source="startup")
    words = "  Try 2 steps.\r\n\tNever restart the box without asking!  "
    assert hook(session, CLIENT, "UserPromptSubmit", prompt=words, permission_mode="default") == ""
    assert hook(session, CLIENT, "UserPromptSubmit", prompt="And 3.") == ""
    told = [(one["number"], one["role"], one["text"], one["synthetic"]) for one in facts(session, "messages")]
    assert told == [(1, "user", words, False), (2, "user", "And 3.", False)]
    proposed = facts(session, "directives")[1]
    assert (proposed["text"], proposed["message"]) == ("Never restart the box without asking!", 1)
    assert proposed["proposed"] is True


@pytest.mark.slow
def test_a_proposed_directive_is_shown_as_such_until_it_is_confirmed(session: TestClient) -> None:
    hook(session, CLIENT, "UserPromptSubmit", prompt="Never restart the box.")
    hook(session, CLIENT, "UserPromptSubmit", prompt="I said: never restart the box! Never restart the box.")
    assert len(facts(session, "directives")) == 2
    assert "- D2 (message 1) (proposed from a message, not confirmed): Never restart the box." in context(
        session, CLIENT, "SessionStart", source="compact"
    )
    session.patch(f"{API}/directives/D2", json={"proposed": False}).raise_for_status()
    assert "- D2 (message 1): Never restart the box." in context(session, CLIENT, "SessionStart", source="compact")


@pytest.mark.parametrize(
    "prompt", [".", "  ", "status", "Status?", "/sitrep", "/sitrep:sitrep gpu", "/mcp__sitrep__resume"]
)
def test_whoever_says_nothing_asks_for_the_checkpoint(session: TestClient, prompt: str) -> None:
    text = context(session, CLIENT, "UserPromptSubmit", prompt=prompt)
    assert text.startswith("Sitrep C1 · S1 tuning · handed over ")
    assert facts(session, "checkpoints")[0]["trigger"] == "empty message"
    assert facts(session, "messages")[0]["text"] == prompt


@pytest.mark.parametrize(
    "prompt",
    [
        "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\nAlways be careful.",
        "Continue if you have next steps, or stop. Never stop.",
    ],
)
def test_the_client_is_not_the_user(session: TestClient, prompt: str) -> None:
    context(session, CLIENT, "SessionStart", source="startup")
    assert hook(session, CLIENT, "UserPromptSubmit", prompt=prompt) == ""
    assert [(one["text"], one["synthetic"]) for one in facts(session, "messages")] == [(prompt, True)]
    assert len(facts(session, "directives")) == 1
    assert len(facts(session, "checkpoints")) == 1


def test_the_summariser_and_sub_agents_are_not_the_user(session: TestClient) -> None:
    hook(
        session, CLIENT, "SubagentStop", agent_id="a1", agent_type="", last_assistant_message="C1", background_tasks=[]
    )
    hook(session, CLIENT, "UserPromptSubmit", prompt="Never do that.", agent_id="a1", agent_type="explorer")
    assert facts(session, "messages") == []
    assert facts(session, "checkpoints") == []


def test_waiting_for_a_background_task_is_idle(session: TestClient) -> None:
    task = {"id": "b1", "type": "shell", "status": "running", "description": "load model", "command": "sleep 900"}
    assert hook(session, CLIENT, "Stop", stop_hook_active=False, last_assistant_message="x", background_tasks=[]) == ""
    assert facts(session, "checkpoints") == []
    assert hook(session, CLIENT, "Stop", last_assistant_message="loading", background_tasks=[task]) == ""
    made = session.get(f"{API}/checkpoints/C1").json()
    assert (made["trigger"], made["rendered"]["cause"]) == ("idle", "in the background: load model")


def test_a_client_that_waits_for_the_user_is_idle(session: TestClient) -> None:
    hook(session, CLIENT, "Notification", message="Claude needs your permission", notification_type="permission_prompt")
    assert facts(session, "checkpoints") == []
    hook(session, CLIENT, "Notification", message="Claude is waiting for your input", notification_type="idle_prompt")
    assert [one["trigger"] for one in facts(session, "checkpoints")] == ["idle"]


def test_an_answer_that_names_the_checkpoint_proves_that_it_arrived(session: TestClient) -> None:
    context(session, CLIENT, "SessionStart", source="startup")
    hook(session, CLIENT, "Stop", last_assistant_message="I go on from C1.", background_tasks=[])
    (delivery,) = facts(session, "deliveries")
    assert delivery["echoed"] is True


def test_the_transcript_proves_that_it_arrived_whole(session: TestClient, tmp_path: Path) -> None:
    transcript = tmp_path / "transcript.jsonl"
    texts = [context(session, CLIENT, "SessionStart", source="startup", transcript_path=str(transcript)) for _ in "12"]
    preview = f"<persisted-output>\nOutput too large. Preview (first 2KB):\n{texts[0][:500]}"
    attached = [
        {"attachment": {"type": "hook_additional_context", "content": [text], "hookEvent": "SessionStart"}}
        for text in (preview, texts[1])
    ]
    said = {"message": {"role": "user", "content": texts[0]}}
    transcript.write_text("".join(json.dumps(line) + "\n" for line in [*attached, said]))
    hook(session, CLIENT, "Stop", transcript_path=str(transcript), last_assistant_message="ok", background_tasks=[])
    wait_until(lambda: any(one.get("proof") for one in facts(session, "deliveries")))
    assert [one.get("proof") for one in facts(session, "deliveries")] == [None, "transcript"]


def test_hand_overs_that_went_otherwise_do_not_hide_one_that_a_transcript_proves(
    session: TestClient, tmp_path: Path
) -> None:
    transcript = tmp_path / "transcript.jsonl"
    text = context(session, CLIENT, "SessionStart", source="startup", transcript_path=str(transcript))
    for _ in range(20):
        told = {"to": CLIENT, "channel": "mcp"}
        headers = {"X-Sitrep-Conversation": CONVERSATION}
        session.post(f"{API}/sessions/current/resume", json=told, headers=headers).raise_for_status()
    attached = {"attachment": {"type": "hook_additional_context", "content": [text], "hookEvent": "SessionStart"}}
    transcript.write_text(json.dumps(attached) + "\n")
    hook(session, CLIENT, "SessionEnd", reason="other", transcript_path=str(transcript))
    assert [one.get("proof") for one in facts(session, "deliveries")] == ["transcript"] + [None] * 20


def test_a_summary_is_no_answer(session: TestClient) -> None:
    hook(session, CLIENT, "PreCompact", trigger="auto", custom_instructions=None)
    context(session, CLIENT, "SessionStart", source="compact")
    hook(session, CLIENT, "PostCompact", trigger="auto", compact_summary="We tune.")
    hook(session, CLIENT, "Stop", last_assistant_message="Done.", background_tasks=[])
    assert [one["echoed"] for one in facts(session, "deliveries")] == [False]


def test_what_stands_already_is_not_sent_twice(session: TestClient) -> None:
    context(session, CLIENT, "SessionStart", source="startup")
    assert "No hacks" in context(session, CLIENT, "SessionStart", source="resume")  # it may not have arrived
    hook(session, CLIENT, "UserPromptSubmit", prompt="Go on.")
    hook(session, CLIENT, "Stop", last_assistant_message="From C1 on.", background_tasks=[])
    hook(session, CLIENT, "SessionEnd", reason="other")
    line = context(session, CLIENT, "SessionStart", source="resume")
    assert line.startswith("Sitrep: checkpoint C1 stands above (delivery 2); no fact has changed since")
    hook(session, CLIENT, "PreCompact", trigger="auto", custom_instructions=None)
    assert "No hacks" in context(session, CLIENT, "SessionStart", source="resume")


def test_commands_that_matter_are_kept(session: TestClient) -> None:
    answered = {"stdout": "", "stderr": "", "interrupted": False, "isImage": False, "backgroundTaskId": "b1"}
    serve = "cd /srv && CUDA_VISIBLE_DEVICES=0 HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz012345 nohup python3 -m sglang.launch_server --port 30000 > s.log 2>&1 &"
    for number, command in enumerate(["ls -la", serve, "echo sglang.launch_server"]):
        told = {"command": command, "description": "x", "run_in_background": True}
        hook(
            session, CLIENT, "PostToolUse", tool_name="Bash", tool_input=told, tool_response=answered,
            tool_use_id=f"toolu_{number}",
        )  # fmt: skip
    hook(session, CLIENT, "PostToolUse", tool_name="Read", tool_input={"file_path": "/x"}, tool_response={})
    (kept,) = facts(session, "commands")
    assert kept["kind"] == "server"
    assert kept["provenance"] == "observed:claude-code"
    assert "hf_abc" not in kept["command"]
    assert kept["cwd"] == "/home/dev/work"


def test_two_sets_of_hooks_tell_a_prompt_once(session: TestClient) -> None:
    for _ in range(2):
        hook(session, CLIENT, "UserPromptSubmit", prompt="once", prompt_id="79e47e6f")
    hook(session, CLIENT, "UserPromptSubmit", prompt="once", prompt_id="58a34009")
    assert [one["number"] for one in facts(session, "messages")] == [1, 2]


def test_the_end_writes_down_what_is_known(session: TestClient) -> None:
    assert hook(session, CLIENT, "SessionEnd", reason="prompt_input_exit") == ""
    assert [one["trigger"] for one in facts(session, "checkpoints")] == ["session end"]


def test_what_was_heard_of_each_client_is_listed(session: TestClient) -> None:
    call(session, CLIENT, "session_start", payload("SessionStart", source="startup"))
    found = {one["client"]: one for one in session.get(f"{API}/hooks").json()}
    assert found[CLIENT]["conversations"] == 1
    assert found[CLIENT]["calls"] == {"session-start": 1}
    assert "seen_at" in found[CLIENT]
    assert found["codex"]["calls"] == {}


def test_what_ends_while_it_is_looked_for_is_told_the_next_time(
    session: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = session.post(f"{API}/sweeps", json={"name": "steps", "state": "running"}).json()["id"]
    runs, look = [True], waking.news

    async def ends_meanwhile(*told: Any) -> News:
        found = await look(*told)
        runs.clear()
        return found

    async def is_awaited(_: Any) -> bool:
        return bool(runs)

    monkeypatch.setattr(waking, "news", ends_meanwhile)
    monkeypatch.setattr(waking, "_is_awaited", is_awaited)

    def ask(since: str) -> str:
        answer = session.post(f"{API}/hooks/{CLIENT}/Waiting?by=1.1&since={since}", json=payload("Stop"))
        return answer.text

    told, _, since = ask("").partition(" ")
    assert told == "since"
    session.patch(f"{API}/sweeps/{sweep}", json={"state": "done"}).raise_for_status()
    assert ask(since).startswith(f"Sitrep: Sweep {sweep} steps is done")
