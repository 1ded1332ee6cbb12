"""The real Gemini CLI: what its model is asked, before and after it compresses its context."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agents.clients.having import SITREP, Home, home, program
from tests.agents.clients.model import SUMMARY, Turn, model, names_the_checkpoint
from tests.agents.clients.proof import HANDED, deaf_daemon, whole_and_once
from tests.agents.clients.screen import screen
from tests.daemons import Daemon
from tests.helpers import wait_until

pytestmark = pytest.mark.clients
# More than half of its context, from which on it compresses.
_FULL = 600_000
_SETTINGS = {
    "privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False},
    "general": {"enableAutoUpdate": False}, "security": {"auth": {"selectedType": "gemini-api-key"}},
    "ui": {"theme": "Default"},
}  # fmt: skip


@pytest.fixture
def at(tmp_path: Path, daemon: Daemon) -> Iterator[Home]:
    with home(tmp_path, daemon, GEMINI_API_KEY="dummy", GEMINI_CLI_TRUST_WORKSPACE="true") as found:
        (found.path / ".gemini").mkdir()
        (found.path / ".gemini/settings.json").write_text(json.dumps(_SETTINGS, indent=2))
        found.install("gemini")
        yield found


def prompt(at: Home, url: str, text: str, *options: str) -> str:
    """One turn without a screen."""
    at.env["GOOGLE_GEMINI_BASE_URL"] = url
    return at.run("node", program("gemini"), "--yolo", "-p", text, *options).stdout


def test_a_conversation_begins_with_the_checkpoint_whole_and_once(at: Home) -> None:
    call = Turn(tool="run_shell_command", arguments={"command": "echo from-shell", "description": "echo"})
    with model(call, Turn(names_the_checkpoint)) as (script, url):
        said = prompt(at, url, "Start. Always measure three times.")
    first, second = script.of("agent")
    checkpoint, delivery = whole_and_once(at, first)
    assert whole_and_once(at, second) == (checkpoint, delivery)
    assert f"I go on from {checkpoint}." in said
    assert "from-shell" in second.text
    row = wait_until(lambda: next((d for d in at.facts("deliveries") if d["id"] == delivery and d["echoed"]), None))
    assert (row["to"], row["checkpoint"]) == ("gemini", checkpoint)
    said_by_user = at.facts("messages")[-1]
    assert (said_by_user["text"], said_by_user["synthetic"]) == ("Start. Always measure three times.", False)


def test_on_a_screen_the_checkpoint_is_there_after_each_compression_whole_and_once(at: Home) -> None:
    shell = Turn(tool="run_shell_command", arguments={"command": "echo from-shell", "description": "echo"})
    turns = (
        Turn("first answer"), Turn("second answer", tokens=_FULL), Turn(names_the_checkpoint), shell, Turn("fourth answer"),
        Turn("fifth answer"),
    )  # fmt: skip
    with model(*turns) as (script, url):
        at.env["GOOGLE_GEMINI_BASE_URL"] = url
        with screen(at, "node", program("gemini"), "--yolo") as shown:
            shown.shows("Type your message")
            for number, (said, answer) in enumerate(
                (("Start.", "first"), ("Second.", "second"), ("Go on.", "I go on from C"), ("Run it.", "fourth")), 1
            ):
                shown.say(said, heard=lambda number=number: len(script.of("agent")) >= number)
                shown.shows(answer)
            shown.say("/compress", heard=lambda: len(script.of("summary")) == 4)
            shown.shows("compressed from")
            shown.say("Once more.", heard=lambda: len(script.of("agent")) == 6)
            shown.shows("fifth answer")
    asked = script.of("agent")
    assert len(script.of("summary")) == 4, "each is asked for twice"
    assert SUMMARY not in asked[1].text
    for one in asked[2:]:
        assert SUMMARY in one.text
        whole_and_once(at, one)
    assert "from-shell" in asked[4].text
    carried = [next(part for part in one.parts if HANDED in part) for one in asked[2:5]]
    assert carried[0] == carried[1] == carried[2], "so that a prompt cache holds"
    kept = [one for one in at.facts("compactions") if one["client"] == "gemini"]
    assert SUMMARY in kept[-1]["summary"]
    assert any(one["id"].startswith("D") for one in kept[-1]["lost"])


def test_its_tools_are_there_and_what_they_give_reaches_the_model(at: Home) -> None:
    finding = {"kind": "rejected", "title": "FP8 KV cache", "reason": "accept rate halves"}
    calls = (
        Turn(tool="mcp_sitrep_get_checkpoint"), Turn(tool="mcp_sitrep_record_finding", arguments=finding), Turn("done"),
    )  # fmt: skip
    with model(*calls) as (script, url):
        prompt(at, url, "Start.")
    first, second, third = script.of("agent")
    assert "mcp_sitrep_get_checkpoint" in first.tools
    assert "After any loss of context" in first.text
    assert second.text.count(HANDED) == 2
    assert "recorded in" in third.text
    assert at.facts("findings")[-1]["title"] == "FP8 KV cache"


def test_what_stands_in_the_conversation_is_not_sent_again_when_it_goes_on(at: Home) -> None:
    with model(Turn(names_the_checkpoint), Turn("second")) as (script, url):
        prompt(at, url, "Start.")
        wait_until(lambda: at.facts("deliveries")[-1]["echoed"])
        prompt(at, url, "Go on.", "--resume", "latest")
    asked = script.of("agent")[-1]
    whole_and_once(at, asked)
    assert "Start." in asked.text, "the word of the user is not left out with a context in front of it"
    assert "stands above" in asked.text


def test_an_empty_wish_is_answered_by_the_checkpoint(at: Home) -> None:
    with model(Turn("first"), Turn("second")) as (script, url):
        prompt(at, url, "Start.")
        prompt(at, url, "status", "--resume", "latest")
    assert script.of("agent")[-1].text.count(HANDED) == 2
    assert "Start." in script.of("agent")[-1].text
    assert at.facts("checkpoints")[-1]["trigger"] == "empty message"


def test_without_a_daemon_it_goes_on_and_is_told_so(at: Home, tmp_path: Path) -> None:
    at.env["SITREP_DATA_DIR"] = str(tmp_path / "nothing")
    with model(Turn("fine")) as (script, url):
        assert "fine" in prompt(at, url, "Start.")
    (asked,) = script.of("agent")
    assert "its daemon does not run" in asked.text


def test_with_a_daemon_that_does_not_answer_it_goes_on(at: Home, tmp_path: Path) -> None:
    with deaf_daemon(tmp_path / "d") as store, model(Turn("fine")) as (script, url):
        at.env["SITREP_DATA_DIR"] = str(store)
        settings = at.path / ".gemini/settings.json"
        told = json.loads(settings.read_text())
        del told["mcpServers"]
        settings.write_text(json.dumps(told))
        assert "fine" in prompt(at, url, "Start.")
    (asked,) = script.of("agent")
    assert "its daemon did not answer within a second" in asked.text


def test_doctor_finds_it_in_place(at: Home) -> None:
    told = at.run(SITREP, "doctor", "gemini", check=False)
    assert "gemini" in told.stdout.casefold() + told.stderr.casefold()
    assert told.returncode == 0, told.stdout + told.stderr
