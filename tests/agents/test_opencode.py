"""opencode: the plug-in of ours, run by Node, against a real daemon; inputs and outputs are those that opencode gives it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agents.calling import API, facts
from tests.agents.plugin import PLUGIN, Plugin, needs_node
from tests.daemons import Daemon, running_daemon
from tests.helpers import wait_until

pytestmark = needs_node


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("opencode") / "store") as found:
        yield found


@pytest.fixture
def session(daemon: Daemon, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh session, the only open one."""
    name = request.node.name
    number = daemon.client.post(f"{API}/sessions", json={"name": name}).json()["id"]
    daemon.client.post(f"{API}/directives", json={"text": "No hacks that cut precision."}).raise_for_status()
    yield number
    daemon.client.post(f"{API}/sessions/{number}/close").raise_for_status()


@pytest.fixture
def plugin(daemon: Daemon) -> Iterator[Plugin]:
    found = Plugin(daemon.data_dir)
    yield found
    found.end()


def of(daemon: Daemon, session: str, plural: str) -> list[dict[str, Any]]:
    return [one for one in facts(daemon.client, plural) if one.get("session") == session]


def idles(daemon: Daemon) -> int:
    """How often opencode has told that it is idle."""
    heard = {one["client"]: one["calls"] for one in daemon.client.get(f"{API}/hooks").json()}
    return int(heard["opencode"].get("idle", 0))


def test_every_request_carries_the_checkpoint_and_the_same_bytes(daemon: Daemon, session: str, plugin: Plugin) -> None:
    plugin.says("ses_1", "Tune it.")
    (text,) = wait_until(lambda: [one for one in plugin.system("ses_1") if "No hacks" in one])
    assert text.startswith("Sitrep C")
    assert len(text) <= 9_000
    plugin.says("ses_1", "Go on.", message="msg_2")
    wait_until(lambda: len(of(daemon, session, "messages")) == 2)
    assert plugin.system("ses_1") == [text]
    assert len(of(daemon, session, "deliveries")) == 1
    daemon.client.post(f"{API}/directives", json={"text": "Never restart the box."}).raise_for_status()
    plugin.says("ses_1", "And now?", message="msg_3")
    wait_until(lambda: "Never restart the box." in plugin.system("ses_1")[0])


def test_another_process_carries_the_same_bytes_on(daemon: Daemon, session: str, plugin: Plugin) -> None:
    text = wait_until(lambda: [one for one in plugin.system("ses_on") if session in one])
    again = Plugin(daemon.data_dir)
    assert wait_until(lambda: [one for one in again.system("ses_on") if session in one]) == text
    again.end()


def test_only_requests_of_the_agent_carry_it(daemon: Daemon, session: str, plugin: Plugin) -> None:
    assert plugin.system("ses_2", "You are a title generator. You output ONLY a thread title.") == []
    assert plugin.system("ses_2", "You are a context summarization agent.") == []
    plugin.event("session.created", sessionID="ses_child", info={"id": "ses_child", "parentID": "ses_2"})
    assert plugin.system("ses_child") == []
    plugin.says("ses_child", "Never look here.")
    plugin.event("session.status", sessionID="ses_child", status={"type": "idle"})
    plugin.says("ses_2", "Hello.")
    wait_until(lambda: [one["text"] for one in of(daemon, session, "messages")] == ["Hello."])


def test_a_compaction_gets_it_and_so_does_the_request_after(daemon: Daemon, session: str, plugin: Plugin) -> None:
    plugin.says("ses_3", "Tune it.")
    before = wait_until(lambda: [one for one in plugin.system("ses_3") if session in one])
    daemon.client.post(f"{API}/next-steps", json={"text": "Benchmark 3 steps."}).raise_for_status()
    output = plugin.call("experimental.session.compacting", {"sessionID": "ses_3"}, {"context": ["theirs"]})
    assert output["context"][0] == "theirs"
    assert list(output) == ["context"]
    (context,) = output["context"][1:]
    assert "Benchmark 3 steps." in context
    assert "No hacks that cut precision." in context
    assert len(context) <= 9_000
    assert plugin.system("ses_3", "Some summariser of a later version.") == []
    done = {"event": {"type": "session.compacted", "properties": {"sessionID": "ses_3"}}}
    plugin.call("event", done, summary="We tune. Benchmark 3 steps.")
    (kept,) = wait_until(lambda: of(daemon, session, "compactions"))
    assert kept["summary"] == "We tune. Benchmark 3 steps."
    assert [one["what"] for one in kept["lost"]] == ["directive"]
    wait_until(lambda: "Benchmark 3 steps." in plugin.system("ses_3")[0])
    assert plugin.system("ses_3") != before
    assert [one["trigger"] for one in of(daemon, session, "checkpoints")][-1] == "before compaction"


@pytest.mark.parametrize("prompt", ["  ", ".", "status"])
def test_whoever_says_nothing_gets_it_anew(daemon: Daemon, session: str, plugin: Plugin, prompt: str) -> None:
    name = f"ses_4{len(prompt)}{prompt.strip()}"
    first = wait_until(lambda: [one for one in plugin.system(name) if session in one])
    plugin.says(name, prompt)
    wait_until(lambda: plugin.system(name) != first)
    assert [(one["text"], one["synthetic"]) for one in of(daemon, session, "messages")] == [(prompt, False)]
    assert [one["trigger"] for one in of(daemon, session, "checkpoints")] == ["session start", "empty message"]


def test_what_opencode_says_by_itself_is_synthetic(daemon: Daemon, session: str, plugin: Plugin) -> None:
    words = "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed."
    part = {"id": "prt_9", "messageID": "msg_9", "sessionID": "ses_5", "type": "text", "text": words, "synthetic": True}
    plugin.event("message.updated", info={"id": "msg_9", "role": "user", "sessionID": "ses_5"})
    for _ in range(2):
        plugin.event("message.part.updated", part=part)
    wait_until(lambda: [one["synthetic"] for one in of(daemon, session, "messages")] == [True])
    plugin.says("ses_5", "Mine.", message="msg_10")
    attached = part | {"id": "prt_10", "messageID": "msg_10", "text": "Called the Read tool"}
    plugin.event("message.updated", info={"id": "msg_10", "role": "user", "sessionID": "ses_5"})
    plugin.event("message.part.updated", part=attached)
    before = idles(daemon)
    plugin.event("session.status", sessionID="ses_5", status={"type": "idle"})
    wait_until(lambda: idles(daemon) > before)
    wait_until(lambda: len(of(daemon, session, "messages")) >= 2)
    assert [one["text"] for one in of(daemon, session, "messages")] == [words, "Mine."]


def test_its_answers_and_commands_are_heard(daemon: Daemon, session: str, plugin: Plugin) -> None:
    (text,) = wait_until(lambda: [one for one in plugin.system("ses_6") if session in one])
    name = text.split()[1]
    told = {"sessionID": "ses_6", "messageID": "msg_1", "partID": "prt_1"}
    plugin.call("experimental.text.complete", told, {"text": f"From {name} on."})
    wait_until(lambda: [one["echoed"] for one in of(daemon, session, "deliveries")] == [True])
    ran = {"tool": "bash", "sessionID": "ses_6", "callID": "c", "args": {"command": "vllm serve m --port 8000"}}
    plugin.call("tool.execute.after", ran, {"title": "t", "metadata": {"exit": 1}, "output": "no GPU\n"})
    mcp = {"content": [{"type": "text", "text": "x"}], "structuredContent": {}, "isError": False}
    plugin.call("tool.execute.after", ran | {"tool": "sitrep_get_checkpoint", "args": {}}, mcp)
    (kept,) = wait_until(lambda: of(daemon, session, "commands"))
    assert (kept["kind"], kept["exit_code"], kept["output"]) == ("server", 1, "no GPU")


def test_an_agent_that_waits_is_told_what_it_waits_for(daemon: Daemon, session: str) -> None:
    plugin = Plugin(daemon.data_dir, SITREP_NEWS_MS="50")
    try:
        sweep = daemon.client.post(f"{API}/sweeps", json={"name": "steps", "state": "running"}).json()["id"]
        plugin.event("session.status", sessionID="ses_8", status={"type": "idle"})

        def told() -> list[Any]:
            daemon.client.patch(f"{API}/sweeps/{sweep}", json={"state": "done"}).raise_for_status()
            plugin.event("session.updated")
            return list(plugin.prompts)

        prompt = wait_until(told)[0]
        assert prompt["path"] == {"id": "ses_8"}
        assert prompt["body"]["noReply"] is True
        (part,) = prompt["body"]["parts"]
        assert part["text"].startswith(f"Sitrep: Sweep {sweep} steps is done ({session} ")
        plugin.says("ses_8", part["text"])
        plugin.says("ses_8", "Mine.", message="msg_2")
        wait_until(lambda: [one["text"] for one in of(daemon, session, "messages")] == ["Mine."])
    finally:
        plugin.end()


def test_a_shell_knows_its_conversation(plugin: Plugin) -> None:
    output = plugin.call("shell.env", {"cwd": "/", "sessionID": "ses_7", "callID": "c"}, {"env": {"A": "b"}})
    assert output["env"] == {"A": "b", "SITREP_CONVERSATION": "ses_7"}


def test_without_a_daemon_nothing_fails_and_nothing_waits(tmp_path: Path) -> None:
    plugin = Plugin(tmp_path / "none", PLUGIN)
    try:
        plugin.says("ses_1", ".")
        (line,) = plugin.system("ses_1")
        assert "its daemon did not answer in time" in line
        assert plugin.system("ses_1") == [line]
        assert plugin.call("experimental.session.compacting", {"sessionID": "ses_1"}, {"context": []}) == {
            "context": []
        }
        plugin.event("session.compacted", sessionID="ses_1")
    finally:
        plugin.end()


def test_what_a_later_version_changes_does_not_make_it_throw(plugin: Plugin) -> None:
    for hook in (
        "chat.message", "experimental.chat.system.transform", "experimental.session.compacting",
        "experimental.text.complete", "tool.execute.after", "shell.env", "event",
    ):  # fmt: skip
        for told, output in (
            (None, None),
            ({}, {}),
            ({"sessionID": 7}, {"system": "x", "context": 1, "parts": [None]}),
        ):
            plugin.call(hook, told, output)
