"""The real Claude Code: what its model is asked, before and after it compacts its context."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agents.clients.having import API, SITREP, Home, home, program
from tests.agents.clients.model import SUMMARY, Turn, model, names_the_checkpoint
from tests.agents.clients.proof import HANDED, deaf_daemon, whole_and_once
from tests.agents.clients.screen import screen
from tests.daemons import Daemon
from tests.helpers import wait_until

pytestmark = pytest.mark.clients
# More than the context of any of its models: the next request is that of the summariser.
_FULL = 990_000
_OFFLINE = {
    "ANTHROPIC_API_KEY": "dummy", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
}  # fmt: skip


@pytest.fixture
def at(tmp_path: Path, daemon: Daemon) -> Iterator[Home]:
    with home(tmp_path, daemon, **_OFFLINE) as found:
        found.install("claude-code")
        yield found


def prompt(at: Home, url: str, text: str, *options: str) -> dict[str, Any]:
    """One turn without a screen; what it says of itself."""
    at.env["ANTHROPIC_BASE_URL"] = url
    command = (program("claude"), "-p", "--output-format", "json", "--allowedTools", "Bash,mcp__sitrep", *options)
    told: dict[str, Any] = json.loads(at.run(*command, told=text).stdout)
    assert not told["is_error"], told
    return told


def test_after_a_compaction_the_checkpoint_is_there_whole_and_once(at: Home) -> None:
    echo = Turn(tool="Bash", arguments={"command": "echo from-bash", "description": "echo"}, tokens=_FULL)
    with model(echo, Turn(names_the_checkpoint)) as (script, url):
        told = prompt(at, url, "Start. Always measure three times.")
    before, after = script.of("agent")
    (summary,) = script.of("summary")
    whole_and_once(at, before)
    instructions = summary.text.partition("Additional Instructions:")[2]
    assert "Sitrep hands the whole checkpoint" in instructions
    assert "No hacks that cut precision." in instructions
    checkpoint, delivery = whole_and_once(at, after)
    assert SUMMARY in after.text
    assert told["result"] == f"I go on from {checkpoint}."
    row = wait_until(lambda: next((d for d in at.facts("deliveries") if d["id"] == delivery and d.get("proof")), None))
    assert (row["echoed"], row["proof"], row["conversation"]) == (True, "transcript", told["session_id"])
    messages = [(one["text"], one["synthetic"]) for one in at.facts("messages")]
    assert messages[-1] == ("Start. Always measure three times.", False)
    compaction = at.facts("compactions")[-1]
    assert (compaction["client"], compaction["trigger"]) == ("claude-code", "auto")
    assert SUMMARY in compaction["summary"]
    assert any(one["id"].startswith("D") for one in compaction["lost"])


def test_what_stands_in_the_conversation_is_not_sent_again_when_it_goes_on(at: Home) -> None:
    with model(Turn(names_the_checkpoint), Turn("second")) as (script, url):
        told = prompt(at, url, "Start.")
        wait_until(
            lambda: any(d.get("proof") and d.get("conversation") == told["session_id"] for d in at.facts("deliveries"))
        )
        prompt(at, url, "Go on.", "--resume", told["session_id"])
    _, again = script.of("agent")
    whole_and_once(at, again)
    assert "Sitrep: checkpoint" in again.text
    assert "stands above" in again.text


def test_a_manual_compaction_and_the_next_prompt(at: Home) -> None:
    with model(Turn("first"), Turn(names_the_checkpoint)) as (script, url):
        session = prompt(at, url, "Start.")["session_id"]
        prompt(at, url, "/compact keep exact numbers", "--resume", session)
        prompt(at, url, "Go on.", "--resume", session)
    (summary,) = script.of("summary")
    assert "keep exact numbers" in summary.text
    whole_and_once(at, script.of("agent")[-1])


def test_its_tools_are_there_and_what_they_give_reaches_the_model(at: Home) -> None:
    finding = {"kind": "rejected", "title": "FP8 KV cache", "reason": "accept rate halves"}
    calls = (
        Turn(tool="mcp__sitrep__get_checkpoint"),
        Turn(tool="mcp__sitrep__record_finding", arguments=finding),
        Turn("done"),
    )
    with model(*calls) as (script, url):
        prompt(at, url, "Start.")
    first, second, third = script.of("agent")
    assert "mcp__sitrep__get_checkpoint" in first.tools, "always loaded, with its description"
    assert "After any loss of context" in first.text
    assert second.text.count(HANDED) == 2
    assert "\\n" not in second.parts[-1], "plain text, not JSON"
    assert "recorded in" in third.text
    recorded = at.facts("findings")[-1]
    assert (recorded["title"], recorded["provenance"]) == ("FP8 KV cache", "told:claude-code")
    assert {one["channel"] for one in at.facts("deliveries")} >= {"hook", "mcp"}


def test_an_empty_wish_is_answered_by_the_checkpoint(at: Home) -> None:
    with model(Turn("first"), Turn("second")) as (script, url):
        session = prompt(at, url, "Start.")["session_id"]
        prompt(at, url, "status", "--resume", session)
    assert script.of("agent")[-1].text.count(HANDED) >= 2
    assert at.facts("checkpoints")[-1]["trigger"] == "empty message"


def make_known(at: Home) -> None:
    """It asks nothing of who starts it for the first time."""
    state = at.path / ".claude.json"
    seen = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
    told = {
        "hasCompletedOnboarding": True, "theme": "dark", "projects": {str(at.work): seen},
        "customApiKeyResponses": {"approved": ["dummy"], "rejected": []},
    }  # fmt: skip
    state.write_text(json.dumps(json.loads(state.read_text()) | told))


def test_on_a_screen_with_a_compaction_that_is_typed(at: Home) -> None:
    make_known(at)
    with model(Turn("first answer"), Turn(names_the_checkpoint), Turn("third answer")) as (script, url):
        at.env["ANTHROPIC_BASE_URL"] = url
        with screen(at, program("claude")) as shown:
            shown.shows("auto mode", "for shortcuts", "for agents")
            shown.say("Start.")
            shown.shows("first answer")
            shown.press("Enter")
            shown.say("/compact keep exact numbers")
            shown.shows("PostCompact")
            shown.say("Go on.")
            shown.shows("I go on from C")
            shown.say(".")
            shown.shows("third answer")
    _, after, asking = script.of("agent")
    (summary,) = script.of("summary")
    assert "keep exact numbers" in summary.text
    assert "Sitrep hands the whole checkpoint" in summary.text
    checkpoint, _ = whole_and_once(at, after)
    assert f"I go on from {checkpoint}." in asking.text
    assert asking.text.count(HANDED) == 2, "who says nothing asks for it anew"
    assert [one["text"] for one in at.facts("messages")[-3:]] == ["Start.", "Go on.", "."]


def test_an_idle_one_is_woken_when_what_it_waits_for_has_happened(at: Home) -> None:
    make_known(at)
    command = "until [ -e go ]; do sleep 0.1; done; echo CUDA out of memory; exit 3"
    told = {"argv": ["sh", "-c", command], "name": "3 steps", "ready_pattern": "never", "cwd": str(at.work)}
    launch = at.daemon.client.post(f"{API}/launches", json=told).raise_for_status().json()["id"]
    with model(Turn("I wait for it."), Turn("It has failed."), Turn("done")) as (script, url):
        at.env["ANTHROPIC_BASE_URL"] = url
        with screen(at, program("claude")) as shown:
            shown.shows("auto mode", "for shortcuts", "for agents")
            shown.say("Start.")
            shown.shows("I wait for it.")
            wait_until(lambda: at.calls("claude-code").get("waiting", 0) >= 2)
            (at.work / "go").touch()
            shown.shows("It has failed.")
            assert "Sitrep: what was waited for has happened" in shown.text()
    woken = script.of("agent")[1]
    assert f"What this agent waits for has happened. Sitrep: {launch} 3 steps is failed" in woken.text
    assert "NOT USER INPUT" in woken.text
    assert len(script.of("agent")) == 2, "told once, and not again at the end of the turn that it gave rise to"
    assert [one["text"] for one in at.facts("messages") if not one["synthetic"]][-1] == "Start."


def test_without_a_screen_nothing_holds_it_up(at: Home) -> None:
    told = {"command": "sleep 600", "ready_pattern": "never", "cwd": str(at.work)}
    launch = at.daemon.client.post(f"{API}/launches", json=told).json()["id"]
    with model(Turn("ok")) as (script, url):
        assert prompt(at, url, "Start.")["result"] == "ok"
    assert len(script.of("agent")) == 1
    at.daemon.client.post(f"{API}/launches/{launch}/stop", json={"grace_s": 1, "wait_s": 10}).raise_for_status()


def test_its_shell_means_the_same_session(at: Home, daemon: Daemon) -> None:
    """Although another one is open and no folder is tied."""
    other = daemon.client.post(f"{API}/sessions", json={"name": "another"}).json()["id"]
    try:
        with model(Turn("first")) as (_, url):
            at.env["SITREP_SESSION"] = at.facts("sessions")[-2]["id"]
            session = prompt(at, url, "Start.")["session_id"]
        mine = at.env.pop("SITREP_SESSION")
        command = {"command": f"{SITREP} session show --json", "description": "where it is"}
        with model(Turn(tool="Bash", arguments=command), Turn("done")) as (script, url):
            prompt(at, url, "Go on.", "--resume", session)
        assert f'"id":"{mine}"' in script.of("agent")[-1].text.replace(" ", "")
    finally:
        daemon.client.post(f"{API}/sessions/{other}/close").raise_for_status()


def test_without_a_daemon_it_goes_on_and_is_told_so(at: Home, tmp_path: Path) -> None:
    at.env["SITREP_DATA_DIR"] = str(tmp_path / "nothing")
    with model(Turn("ok")) as (script, url):
        assert prompt(at, url, "Start.")["result"] == "ok"
    (asked,) = script.of("agent")
    assert "its daemon does not run" in asked.text
    assert asked.text.count("Sitrep keeps the state of this work, but") == 1


def test_with_a_daemon_that_does_not_answer_it_goes_on(at: Home, tmp_path: Path) -> None:
    with deaf_daemon(tmp_path / "d") as store, model(Turn("ok")) as (script, url):
        at.env["SITREP_DATA_DIR"] = str(store)
        assert prompt(at, url, "Start.")["result"] == "ok"
    (asked,) = script.of("agent")
    assert "its daemon did not answer within a second" in asked.text
