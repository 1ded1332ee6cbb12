"""The real Codex: what its model is asked, before and after it compacts its context."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.agents.clients.having import API, SITREP, Home, home, program
from tests.agents.clients.model import SUMMARY, Turn, model, names_the_checkpoint
from tests.agents.clients.proof import HANDED, deaf_daemon, whole_and_once
from tests.agents.clients.screen import Screen, screen
from tests.daemons import Daemon
from tests.helpers import wait_until

pytestmark = pytest.mark.clients
_FULL = 60_000
_CONFIG = """\
model = "standin-1"
model_provider = "standin"
check_for_update_on_startup = false
model_context_window = 100000
model_auto_compact_token_limit = 50000

[model_providers.standin]
name = "Stand-in"
base_url = "http://127.0.0.1:9/v1"
wire_api = "responses"
env_key = "STANDIN_KEY"
request_max_retries = 1
stream_max_retries = 1

[analytics]
enabled = false

[otel]
exporter = "none"
"""
TRUSTED = ("--dangerously-bypass-hook-trust",)


@pytest.fixture
def at(tmp_path: Path, daemon: Daemon) -> Iterator[Home]:
    with home(tmp_path, daemon, STANDIN_KEY="dummy") as found:
        (found.path / ".codex").mkdir()
        (found.path / ".codex/config.toml").write_text(_CONFIG)
        found.install("codex")
        yield found


def prompt(at: Home, url: str, text: str, *options: str, trusted: bool = True) -> str:
    """One turn without a screen; hooks that nobody has trusted yet run only where that is said."""
    told = ("-c", f'model_providers.standin.base_url="{url}/v1"', "--skip-git-repo-check", "--json")
    trust = TRUSTED if trusted else ()
    return at.run(program("codex"), "exec", *trust, *told, *options, "-", told=text).stdout


def trust_folder(at: Home, url: str) -> None:
    """Asks the model at `url` from now on, and no question about the folder first."""
    config = at.path / ".codex/config.toml"
    trusted = f'\n[projects."{at.work}"]\ntrust_level = "trusted"\n'
    config.write_text(config.read_text().replace("http://127.0.0.1:9", url) + trusted)


def trust_hooks(shown: Screen) -> None:
    shown.shows("Hooks need review")
    shown.press("Down", "Enter")
    shown.shows("Ask Codex to do anything")


def test_after_a_compaction_the_checkpoint_is_there_whole_and_once(at: Home) -> None:
    call = Turn(tool="exec_command", arguments={"cmd": "echo from-exec"}, tokens=_FULL)
    with model(call, Turn(names_the_checkpoint)) as (script, url):
        prompt(at, url, "Start. Always measure three times.")
    before, after = script.of("agent")
    assert len(script.of("summary")) == 1
    whole_and_once(at, before)
    checkpoint, delivery = whole_and_once(at, after)
    assert SUMMARY in after.text
    row = wait_until(lambda: next((d for d in at.facts("deliveries") if d["id"] == delivery and d["echoed"]), None))
    assert (row["to"], row["checkpoint"]) == ("codex", checkpoint)
    assert "compaction" in at.facts("checkpoints")[-1]["trigger"]
    assert (at.facts("messages")[-1]["text"], at.facts("messages")[-1]["synthetic"]) == (
        "Start. Always measure three times.", False,
    )  # fmt: skip


def test_what_stands_in_the_conversation_is_not_sent_again_when_it_goes_on(at: Home) -> None:
    with model(Turn(names_the_checkpoint), Turn("second")) as (script, url):
        prompt(at, url, "Start.")
        wait_until(lambda: at.facts("deliveries")[-1]["echoed"])
        prompt(at, url, "Go on.", "resume", "--last")
    whole_and_once(at, script.of("agent")[-1])


def test_its_tools_are_there_and_what_they_give_reaches_the_model(at: Home) -> None:
    """Without asking it runs only what reads: another tool is refused, and the agent is told so."""
    calls = (
        Turn(tool="mcp__sitrep__get_checkpoint"),
        Turn(tool="mcp__sitrep__search", arguments={"query": "hacks"}),
        Turn("done"),
    )
    with model(*calls) as (script, url):
        prompt(at, url, "Start.", "-c", 'approval_policy="never"')
    first, second, third = script.of("agent")
    assert "mcp__sitrep" in first.tools
    assert second.text.count(HANDED) == 2
    assert "D1" in third.parts[-1]
    (by_tool,) = [one for one in at.facts("deliveries") if one.get("channel") == "mcp"][-1:]
    assert by_tool["to"] == "codex"
    assert by_tool["conversation"] == at.facts("deliveries")[-2]["conversation"]


def test_its_shell_means_the_same_session(at: Home) -> None:
    call = Turn(tool="exec_command", arguments={"cmd": "echo conversation $CODEX_THREAD_ID."})
    with model(call, Turn("done")) as (script, url):
        prompt(at, url, "Start.")
    conversation = at.facts("deliveries")[-1]["conversation"]
    assert f"conversation {conversation}." in script.of("agent")[-1].text


def test_hooks_that_nobody_has_trusted_do_not_run_and_doctor_says_so(at: Home) -> None:
    with model(Turn("ok")) as (script, url):
        prompt(at, url, "Start.", trusted=False)
    (asked,) = script.of("agent")
    assert HANDED not in asked.text
    told = at.run(SITREP, "doctor", "codex", check=False)
    assert "not trusted, so Codex skips without a word" in told.stdout + told.stderr
    assert "/hooks" in told.stdout + told.stderr


def test_on_a_screen_its_hooks_are_trusted_once_and_a_compaction_is_typed(at: Home) -> None:
    with model(Turn("first answer"), Turn(names_the_checkpoint), Turn("third answer")) as (script, url):
        trust_folder(at, url)
        with screen(at, program("codex")) as shown:
            trust_hooks(shown)
            shown.say("Start.")
            shown.shows("first answer")
            shown.say("/compact")
            shown.shows("Context compacted")
            shown.say("Go on.")
            shown.shows("I go on from C")
        assert len(script.of("summary")) == 1
        whole_and_once(at, script.of("agent")[-1])
        told = at.run(SITREP, "doctor", "codex", check=False)
        assert f"its hooks in {at.path}/.codex/hooks.json are trusted" in told.stdout + told.stderr
        prompt(at, url, "Once more.", trusted=False)
    whole_and_once(at, script.of("agent")[-1])


def test_an_idle_one_is_woken_when_what_it_waits_for_has_happened(at: Home) -> None:
    """By the message that it takes for a conversation, which is not the word of the user."""
    tools = at.path / "bin"
    tools.mkdir()
    (tools / "codex").symlink_to(program("codex"))
    at.env["PATH"] = f"{tools}:{at.environment['PATH']}"
    command = "until [ -e go ]; do sleep 0.1; done; echo CUDA out of memory; exit 3"
    told = {"argv": ["sh", "-c", command], "name": "3 steps", "ready_pattern": "never", "cwd": str(at.work)}
    launch = at.daemon.client.post(f"{API}/launches", json=told).raise_for_status().json()["id"]
    with model(Turn("I wait for it."), Turn("It has failed.")) as (script, url):
        trust_folder(at, url)
        with screen(at, program("codex")) as shown:
            trust_hooks(shown)
            shown.say("Start.")
            shown.shows("I wait for it.")
            wait_until(lambda: at.calls("codex").get("waiting", 0) >= 2)
            (at.work / "go").touch()
            shown.shows("It has failed.")
    woken = script.of("agent")[1]
    words = f"What this agent waits for has happened. Sitrep: {launch} 3 steps is failed"
    assert len([part for part in woken.parts if part.startswith(words)]) == 1
    said = [(one["text"][:30], one["synthetic"]) for one in at.facts("messages")]
    assert said[-2:] == [("Start.", False), ("What this agent waits for has ", True)]


def test_nobody_waits_behind_one_that_has_ended(at: Home) -> None:
    called = at.calls("codex").get("waiting", 0)
    (at.path / "bin").mkdir()
    (at.path / "bin" / "codex").symlink_to(program("codex"))
    at.env["PATH"] = f"{at.path}/bin:{at.environment['PATH']}"
    told = {"command": "sleep 600", "ready_pattern": "never", "cwd": str(at.work)}
    launch = at.daemon.client.post(f"{API}/launches", json=told).json()["id"]
    with model(Turn("ok")) as (_, url):
        assert "ok" in prompt(at, url, "Start.")
    assert at.calls("codex").get("waiting", 0) > called
    script = str(at.path / ".local/share/sitrep/sitrep-hook")
    wait_until(lambda: not [one for one in psutil.process_iter(["cmdline"]) if script in (one.info["cmdline"] or ())])
    at.daemon.client.post(f"{API}/launches/{launch}/stop", json={"grace_s": 1, "wait_s": 10}).raise_for_status()


def test_without_a_daemon_it_goes_on_and_is_told_so(at: Home, tmp_path: Path) -> None:
    at.env["SITREP_DATA_DIR"] = str(tmp_path / "nothing")
    with model(Turn("fine")) as (script, url):
        assert "fine" in prompt(at, url, "Start.")
    (asked,) = script.of("agent")
    assert "its daemon does not run" in asked.text


def test_with_a_daemon_that_does_not_answer_it_goes_on(at: Home, tmp_path: Path) -> None:
    with deaf_daemon(tmp_path / "d") as store, model(Turn("fine")) as (script, url):
        at.env["SITREP_DATA_DIR"] = str(store)
        assert "fine" in prompt(at, url, "Start.", "-c", "mcp_servers.sitrep.enabled=false")
    (asked,) = script.of("agent")
    assert "its daemon did not answer within a second" in asked.text
