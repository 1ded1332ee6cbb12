"""Payloads of hooks as the clients send them, and what the daemon answers."""

from __future__ import annotations

import json
from typing import Any

import httpx2

API = "/api/v1"
CONVERSATION = "3f1c6c2e-54b1-4d55-9d0e-0a1f6a3c9d11"


def payload(event: str, **fields: Any) -> dict[str, Any]:
    """The fields that every hook of Claude Code, Codex and Gemini CLI has, with those of the event."""
    return {
        "session_id": CONVERSATION,
        "transcript_path": f"/home/dev/.claude/projects/-home-dev-work/{CONVERSATION}.jsonl",
        "cwd": "/home/dev/work",
        "hook_event_name": event,
    } | fields


def call(client: httpx2.Client, agent: str, event: str, told: Any, **headers: str) -> httpx2.Response:
    body = told if isinstance(told, bytes) else json.dumps(told).encode()
    answer = client.post(f"{API}/hooks/{agent}/{event}", content=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def hook(client: httpx2.Client, agent: str, event: str, /, **fields: Any) -> str:
    """What the hook prints."""
    return call(client, agent, event, payload(event, **fields)).text


def context(client: httpx2.Client, agent: str, event: str, /, **fields: Any) -> str:
    """What the hook puts before the model; it is in the one field that clients take it from, and in no other."""
    told = json.loads(hook(client, agent, event, **fields))
    assert list(told) == ["hookSpecificOutput"]
    assert sorted(told["hookSpecificOutput"]) == ["additionalContext", "hookEventName"]
    assert told["hookSpecificOutput"]["hookEventName"] == event
    text: str = told["hookSpecificOutput"]["additionalContext"]
    assert len(text) <= 9_000
    assert len(text.encode()) <= 10_000
    return text


def facts(client: httpx2.Client, plural: str) -> list[dict[str, Any]]:
    """All facts of a kind, oldest first."""
    found: list[dict[str, Any]] = client.get(f"{API}/{plural}", params={"limit": 1000}).json()["data"]
    return found[::-1]
