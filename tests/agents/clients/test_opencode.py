"""The real opencode: what its model is asked, before and after it compacts its context."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agents.clients.having import API, Home, home, program
from tests.agents.clients.model import SUMMARY, Turn, model, names_the_checkpoint
from tests.agents.clients.proof import HANDED, deaf_daemon, whole_and_once
from tests.agents.clients.screen import screen
from tests.daemons import Daemon
from tests.helpers import wait_until

pytestmark = pytest.mark.clients
_CONTEXT = 100_000
_FULL = 99_500
# It would have npm look for types beside any plug-in, and wait a minute where there is no network.
_OFFLINE = {
    "OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1", "npm_config_fetch_retries": "0",
}  # fmt: skip


@pytest.fixture
def at(tmp_path: Path, daemon: Daemon) -> Iterator[Home]:
    with home(tmp_path, daemon, **_OFFLINE) as found:
        found.install("opencode")
        yield found


def prompt(at: Home, url: str, text: str, *options: str) -> str:
    """One turn without a screen, and what was printed."""
    configure(at, url)
    return at.run(program("opencode"), "run", *options, told=text).stdout


def configure(at: Home, url: str) -> None:
    path = at.path / ".config/opencode/opencode.json"
    options_of = {"baseURL": f"{url}/v1", "apiKey": "dummy"}
    limits = {"name": "Stand-in", "tool_call": True, "limit": {"context": _CONTEXT, "output": 4096}}
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Stand-in",
        "options": options_of,
        "models": {"one": limits},
    }
    told = json.loads(path.read_text()) | {
        "model": "standin/one", "small_model": "standin/one", "autoupdate": False, "share": "disabled",
        "provider": {"standin": provider}, "permission": {"bash": "allow", "edit": "allow"},
    }  # fmt: skip
    path.write_text(json.dumps(told))


def test_after_a_compaction_the_checkpoint_is_there_whole_and_once(at: Home) -> None:
    with model(Turn("first", tokens=_FULL), Turn(names_the_checkpoint)) as (script, url):
        prompt(at, url, "Start. Always measure three times.")
    before, after = script.of("agent")
    (summary,) = script.of("summary")
    whole_and_once(at, before)
    assert "The facts below are exact, from Sitrep." in summary.text
    assert "No hacks that cut precision." in summary.text
    assert HANDED not in summary.text, "not as the agent's own context too"
    checkpoint, delivery = whole_and_once(at, after)
    assert SUMMARY in after.text
    assert all(HANDED not in one.text for one in script.of("other")), "titles do not carry it"
    row = wait_until(lambda: next((d for d in at.facts("deliveries") if d["id"] == delivery and d["echoed"]), None))
    assert (row["to"], row["checkpoint"]) == ("opencode", checkpoint)
    said = [(one["text"][:28], one["synthetic"]) for one in at.facts("messages")]
    assert said[-2:] == [("Start. Always measure three ", False), ("Continue if you have next st", True)]
    kept = wait_until(lambda: [one for one in at.facts("compactions") if one["client"] == "opencode"])
    assert SUMMARY in kept[-1]["summary"]
    assert any(one["id"].startswith("D") for one in kept[-1]["lost"])


def test_what_is_carried_is_the_same_to_the_byte_while_nothing_changes(at: Home) -> None:
    bash = Turn(tool="bash", arguments={"command": "echo hello", "description": "says hello"})
    with model(Turn("first"), bash, Turn("second")) as (script, url):
        prompt(at, url, "Start.")
        prompt(at, url, "Go on.", "--continue")
    carried = [next(part for part in one.parts if HANDED in part) for one in script.of("agent")]
    assert len(carried) == 3
    assert carried[1] == carried[2], "within a turn, so that a prompt cache holds"


def test_its_tools_are_there_and_what_they_give_reaches_the_model(at: Home) -> None:
    finding = {"kind": "rejected", "title": "FP8 KV cache", "reason": "accept rate halves"}
    calls = (Turn(tool="sitrep_get_checkpoint"), Turn(tool="sitrep_record_finding", arguments=finding), Turn("done"))
    with model(*calls) as (script, url):
        prompt(at, url, "Start.")
    first, second, third = script.of("agent")
    assert "sitrep_get_checkpoint" in first.tools
    assert "After any loss of context" in first.text
    assert second.parts[-1].startswith("Sitrep C"), "plain text, not JSON"
    assert "recorded in" in third.parts[-1]
    assert at.facts("findings")[-1]["provenance"] == "told:opencode"


def test_the_shell_of_the_agent_means_the_same_session(at: Home) -> None:
    command = {"command": "echo conversation $SITREP_CONVERSATION", "description": "says where it is"}
    with model(Turn(tool="bash", arguments=command), Turn("done")) as (script, url):
        prompt(at, url, "Start.")
    assert "conversation ses_" in script.of("agent")[-1].text


def test_who_waits_is_told_without_a_request_to_its_model_and_the_next_one_has_it(at: Home) -> None:
    at.env["SITREP_NEWS_MS"] = "300"
    sweep = at.daemon.client.post(f"{API}/sweeps", json={"name": "steps", "state": "running"}).json()["id"]
    command = "until [ -e go ]; do sleep 0.1; done; echo CUDA out of memory; exit 3"
    told = {"argv": ["sh", "-c", command], "name": "3 steps", "ready_pattern": "never", "cwd": str(at.work)}
    launch = at.daemon.client.post(f"{API}/launches", json=told).raise_for_status().json()["id"]
    with model(Turn("I wait for it."), Turn("I have seen it.")) as (script, url):
        configure(at, url)
        with screen(at, program("opencode")) as shown:
            shown.shows("Ask anything")
            shown.say("Start.", heard=lambda: script.of("agent"))
            shown.shows("I wait for it.")
            asked_before = at.calls("opencode").get("news", 0)
            wait_until(lambda: at.calls("opencode").get("news", 0) > asked_before + 1)
            (at.work / "go").touch()
            shown.shows(f"Sitrep: {launch} 3 steps is failed")
            at.daemon.client.patch(f"{API}/sweeps/{sweep}", json={"state": "done"}).raise_for_status()
            shown.shows(f"Sitrep: Sweep {sweep} steps is done")
            asked_before = at.calls("opencode")["news"]
            wait_until(lambda: at.calls("opencode")["news"] > asked_before + 3)
            assert len(script.of("agent")) == 1, "no request is made for it"
            shown.say("Go on.", heard=lambda: len(script.of("agent")) == 2)
            shown.shows("I have seen it.")
    asked = script.of("agent")[-1]
    for words in (f"Sitrep: {launch} 3 steps is failed", f"Sitrep: Sweep {sweep} steps is done"):
        assert len([part for part in asked.parts if part.startswith(words)]) == 1
    said = [one["text"] for one in at.facts("messages") if not one["synthetic"]]
    assert said[-2:] == ["Start.", "Go on."], "it is not the word of the user"


def test_on_a_screen_with_a_compaction_that_is_typed(at: Home) -> None:
    with model(Turn("first answer"), Turn(names_the_checkpoint), Turn(names_the_checkpoint)) as (script, url):
        configure(at, url)
        with screen(at, program("opencode")) as shown:
            shown.shows("Ask anything")
            shown.say("Start.")
            shown.shows("first answer")
            shown.say("/compact")
            wait_until(lambda: script.of("summary"))
            shown.shows(SUMMARY)
            shown.say("Go on.")
            shown.shows("I go on from C")
            shown.say(".")
            wait_until(lambda: len(script.of("agent")) == 3)
    _, after, asking = script.of("agent")
    whole_and_once(at, after)
    checkpoint, _ = whole_and_once(at, asking)
    assert at.facts("checkpoints")[-1]["id"] == checkpoint
    assert [one["text"] for one in at.facts("messages")[-1:]] == ["."]


def test_without_a_daemon_it_goes_on_and_is_told_so(at: Home, tmp_path: Path) -> None:
    _elsewhere(at, tmp_path / "nothing")
    with model(Turn("fine")) as (script, url):
        assert "fine" in prompt(at, url, "Start.")
    (asked,) = script.of("agent")
    assert HANDED not in asked.text
    assert any(part.startswith("Sitrep") and len(part) < 400 for part in asked.parts)


def test_with_a_daemon_that_does_not_answer_it_goes_on(at: Home, tmp_path: Path) -> None:
    with deaf_daemon(tmp_path / "d") as store, model(Turn("fine", tokens=_FULL), Turn("went on")) as (script, url):
        _elsewhere(at, store)
        assert "went on" in prompt(at, url, "Start.")
    assert len(script.of("summary")) == 1


def _elsewhere(at: Home, store: Path) -> None:
    """The plug-in goes by the environment before what was installed, and so does `sitrep mcp` of the entry."""
    at.env["SITREP_DATA_DIR"] = str(store)
    path = at.path / ".config/opencode/opencode.json"
    told = json.loads(path.read_text())
    told["mcp"]["sitrep"]["enabled"] = False
    path.write_text(json.dumps(told))
