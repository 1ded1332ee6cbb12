"""From a laptop: everything goes over one ssh connection to the box, and files of both are told apart."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.agents.calling import API, facts, payload
from tests.cli.boxes import SSH, SSHD, Laptop, sshd
from tests.daemons import Daemon, running_daemon
from tests.helpers import PATIENCE_S, wait_until

from sitrepd.cli.connection import parse_url
from sitrepd.errors import SitrepError

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "agents" / "sitrep-hook"
real = pytest.mark.skipif(SSH is None or SSHD is None, reason="needs apt-get install openssh-server openssh-client")


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with room for the path of a socket."""
    with TemporaryDirectory(prefix="s-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("box") / "a store") as daemon:
        daemon.client.post(f"{API}/sessions", json={"name": "work"}).raise_for_status()
        daemon.client.post(f"{API}/directives", json={"text": "Never guess."}).raise_for_status()
        yield daemon


@pytest.fixture(scope="module")
def laptop() -> Iterator[Laptop]:
    with TemporaryDirectory(prefix="s-") as name, sshd(folder := Path(name)) as port:
        found = Laptop(folder, port)
        yield found
        found.hang_up()


@pytest.fixture
def url(laptop: Laptop, box: Daemon) -> str:
    return laptop.url(box.data_dir).replace(" ", "%20")


def hook(laptop: Laptop, url: str, event: str, told: object = None, **env: str) -> str:
    """What the script prints; it never fails."""
    body = json.dumps(told or payload(event, source="startup")).encode()
    done = subprocess.run(
        [SCRIPT, "claude-code", event], input=body, capture_output=True, env=laptop.env | {"SITREP_URL": url} | env,
        timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


def test_an_address_names_a_machine_and_a_store() -> None:
    assert str(parse_url("ssh://me@box:2222/home/me/a%20store/")) == "ssh://me@box:2222/home/me/a store"
    found = parse_url("ssh://box").box
    assert found is not None
    assert (found.destination, found.port, found.store, found.name) == ("box", None, None, "box")
    ipv6 = parse_url("ssh://me@[::1]:22").box
    assert ipv6 is not None
    assert (ipv6.destination, ipv6.port) == ("me@::1", 22)


@pytest.mark.parametrize(
    "url", ["ssh://", "ssh://-oProxyCommand=x", "ssh://box:port", "ssh://a'b", "ssh://me:word@box"]
)
def test_an_address_is_no_option_and_holds_no_password(url: str) -> None:
    with pytest.raises(SitrepError, match="SITREP_URL") as refused:
        parse_url(url)
    assert "word" not in refused.value.detail.replace("password", "")


def test_without_ssh_it_says_so(short: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sitrepd.cli", "session"], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={"PATH": str(short), "HOME": str(short), "SITREP_URL": "ssh://me@box"},
    )  # fmt: skip
    assert done.returncode == 3
    assert "no ssh on the PATH" in done.stderr


def test_folders_that_others_can_read_are_refused(short: Path) -> None:
    (short / "sitrep-ssh").mkdir(mode=0o755)
    done = subprocess.run(
        [sys.executable, "-m", "sitrepd.cli", "session"], capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={"PATH": "/usr/bin", "HOME": str(short), "XDG_RUNTIME_DIR": str(short), "SITREP_URL": "ssh://me@box"},
    )  # fmt: skip
    assert done.returncode == 3
    assert f"chmod 700 {short}/sitrep-ssh" in done.stderr


@real
@pytest.mark.slow
def test_the_command_line_goes_over_one_connection(laptop: Laptop, url: str) -> None:
    laptop.hang_up()
    assert laptop("session", "--json", url=url).json["data"][0]["name"] == "work"
    started = laptop.calls()
    for _ in range(3):
        assert "Never guess." in laptop("resume", url=url).ok().out
    assert laptop.calls() == started


@real
@pytest.mark.slow
def test_callers_at_the_same_time_open_it_together(laptop: Laptop, url: str) -> None:
    laptop.hang_up()
    done = []
    threads = [
        threading.Thread(target=lambda: done.append(laptop("session", "--json", url=url).code)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert done == [0] * 6
    masters = subprocess.run(["pgrep", "-fc", f"{laptop.folder}/run/sitrep-ssh/.*\\[mux\\]"], capture_output=True)
    assert int(masters.stdout) == 1


@real
@pytest.mark.slow
def test_hooks_go_over_it_and_open_it_where_it_is_not(laptop: Laptop, box: Daemon, url: str) -> None:
    plain = box.data_dir.parent / "plain"
    if not plain.exists():
        plain.symlink_to(box.data_dir)
    url = laptop.url(plain)
    laptop.hang_up()
    hook(laptop, url, "SessionStart")
    wait_until(lambda: "Never guess." in hook(laptop, url, "SessionStart"))
    started = laptop.calls()
    assert "Never guess." in hook(laptop, url, "SessionStart")
    assert hook(laptop, url, "UserPromptSubmit", payload("UserPromptSubmit", prompt="From afar")) == ""
    assert laptop.calls() == started
    wait_until(lambda: "From afar" in [one["text"] for one in facts(box.client, "messages")])
    link = next((laptop.folder / "run" / "sitrep-ssh").glob("*plain"))
    assert not list(link.glob("payload*"))
    # The connection is cut, and its socket stays: the next hook sees that, and opens another.
    laptop.hang_up()
    hook(laptop, url, "SessionStart")
    wait_until(lambda: "Never guess." in hook(laptop, url, "SessionStart"))


@real
@pytest.mark.slow
def test_what_was_told_while_it_was_not_open_comes_in_its_order_and_is_answered_to_nobody(
    laptop: Laptop, box: Daemon, url: str
) -> None:
    laptop.hang_up()
    told = [payload("UserPromptSubmit", prompt=f"Said {number}") | {"session_id": "cold"} for number in "12"]
    for one in told:
        body = json.dumps(one).encode()
        done = subprocess.run(
            [sys.executable, "-m", "sitrepd.cli", "hook", "claude-code", "UserPromptSubmit", "--timeout", "0.1"],
            input=body, env=laptop.env | {"SITREP_URL": url}, cwd=laptop.work, capture_output=True, timeout=PATIENCE_S,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, b"")

    def said() -> list[str]:
        return [one["text"] for one in facts(box.client, "messages") if one["text"].startswith("Said")]

    wait_until(lambda: len(said()) >= 2)
    assert said() == ["Said 1", "Said 2"]
    assert "cold" not in [one.get("conversation") for one in facts(box.client, "deliveries")]
    wait_until(lambda: not list((laptop.folder / "run" / "sitrep-ssh").glob("*/kept/*")))
    prompt = payload("UserPromptSubmit", prompt="Said 3") | {"session_id": "cold"}
    wait_until(lambda: "Never guess." in hook(laptop, url, "UserPromptSubmit", prompt))


_OPENCODE = """
const { Sitrep } = await import(process.argv[2])
const plugin = await Sitrep({ client: {}, directory: "/home/dev/work" })
for (;;) {
  const output = { system: ["You are an agent"] }
  await plugin["experimental.chat.system.transform"]({ sessionID: "ses_afar" }, output)
  if (/Never guess/.test(output.system[1])) break
  await new Promise((resolve) => setTimeout(resolve, 100))
}
const message = { message: { id: "m1" }, parts: [{ type: "text", text: "From opencode afar" }] }
await plugin["chat.message"]({ sessionID: "ses_afar" }, message)
"""


@real
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="needs apt-get install nodejs")
def test_the_plug_in_of_opencode_opens_it_too(laptop: Laptop, box: Daemon, url: str) -> None:
    laptop.hang_up()
    program = laptop.folder / "opencode.mjs"
    program.write_text(_OPENCODE)
    plugin = SCRIPT.parent / "opencode" / "sitrep.js"
    process = subprocess.Popen(
        ["node", program, plugin], env=laptop.env | {"SITREP_URL": url}, stderr=subprocess.PIPE
    )  # fmt: skip
    try:
        wait_until(lambda: "From opencode afar" in [one["text"] for one in facts(box.client, "messages")])
    finally:
        process.kill()
        _, complaints = process.communicate()
    assert complaints == b""


@real
@pytest.mark.slow
def test_mcp_goes_over_it(laptop: Laptop, url: str) -> None:
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "get_checkpoint", "arguments": {}}}
    hello = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    }  # fmt: skip
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    done = subprocess.run(
        [sys.executable, "-m", "sitrepd.cli", "mcp"], env=laptop.env | {"SITREP_URL": url}, cwd=laptop.work,
        input="".join(json.dumps(one) + "\n" for one in (hello, ready, call)).encode(), capture_output=True,
        timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    answers = {one.get("id"): one for one in map(json.loads, done.stdout.splitlines())}
    assert "Never guess." in answers[2]["result"]["content"][0]["text"]


@real
@pytest.mark.slow
def test_files_of_both_machines_are_told_apart(laptop: Laptop, box: Daemon, url: str) -> None:
    other = box.client.post(f"{API}/sessions", json={"name": "other"}).json()["id"]
    try:
        assert laptop("init", "--session", other, url=url).ok().out.startswith(f"laptop:{laptop.work} is tied")
        below = laptop.work / "below"
        below.mkdir(exist_ok=True)
        assert laptop("session", "show", "--json", url=url, cwd=below).json["id"] == other
        # The folder of the same path on the box is another one.
        here = {"X-Sitrep-Cwd": str(laptop.work)}
        assert box.client.get(f"{API}/sessions/current", headers=here).status_code == 409
        assert "cannot be kept" in laptop("init", "--file", "--session", other, url=url).refused()
        (laptop.work / "notes.txt").write_text("notes")
        told = laptop("artifact", "add", str(laptop.work / "notes.txt"), "--json", url=url).json
        assert box.client.get(f"{API}/hosts/{told['host']}").json()["name"] == "laptop"
        ran = laptop("run", "--json", "--", "true", url=url).json
        assert (ran["host"], ran["cwd"]) == (told["host"], str(laptop.work))
    finally:
        box.client.patch(f"{API}/sessions/{other}", json={"ended_at": "2030-01-01T00:00:00Z"}).raise_for_status()


def test_a_result_file_of_the_box_is_not_taken_for_one_of_the_laptop(box: Daemon, tmp_path: Path) -> None:
    """Both have a file of the same path; only the agent's own machine wrote it."""
    run = {"backend": "sglang", "request_rate": 1, "completed": 4, "duration": 2.0, "output_throughput": 91.5}
    (tmp_path / "r.jsonl").write_text(json.dumps(run) + "\n")
    command = "python -m sglang.bench_serving --backend sglang --output-file r.jsonl"
    told = payload("PostToolUse", tool_name="Bash", tool_input={"command": command}, tool_response={"stdout": "done"})
    told |= {"cwd": str(tmp_path), "session_id": "laptop-1"}
    before = len(facts(box.client, "benchmarks"))
    answer = box.client.post(f"{API}/hooks/claude-code/PostToolUse", json=told, headers={"X-Sitrep-Host": "laptop"})
    assert answer.status_code == 200
    kept = [one for one in facts(box.client, "commands") if one["command"] == command]
    assert kept[0]["cwd"] == str(tmp_path)
    assert box.client.get(f"{API}/hosts/{kept[0]['host']}").json()["name"] == "laptop"
    assert len(facts(box.client, "benchmarks")) == before


@real
@pytest.mark.slow
def test_what_is_wrong_is_said_with_what_to_do(laptop: Laptop, tmp_path: Path) -> None:
    with running_daemon(tmp_path / "gone") as gone:
        there = laptop.url(gone.data_dir)
        assert laptop("session", url=there).code == 0
    said = laptop("session", url=there).refused(3)
    assert "No daemon runs on" in said
    assert "sitrep resume" in said
    never = laptop("session", url=laptop.url(tmp_path / "none")).refused(3)
    assert "has never run" in never
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"ssh://{laptop.user}@127.0.0.1:{free.getsockname()[1]}"
        assert "No sshd listens there" in laptop("session", url=nobody).refused(3)
        assert "did not answer" in hook(laptop, nobody, "SessionStart")
    config = laptop.folder / "ssh_config"
    kept = config.read_text()
    try:
        config.write_text(kept.replace(f"{laptop.folder}/key\n", "/dev/null\n"))
        refused = laptop("session", url=laptop.url(tmp_path / "new")).refused(3)
        assert "Permission denied" in refused
        assert "ssh-add" in refused
        config.write_text(kept.replace("/known_hosts", "/nobody_known"))
        unknown = laptop("session", url=laptop.url(tmp_path / "newer")).refused(3)
        assert "accept its key" in unknown
    finally:
        config.write_text(kept)


@real
@pytest.mark.slow
def test_the_store_is_found_as_the_box_has_it_set(short: Path, box: Daemon) -> None:
    with sshd(short, SetEnv=f'SITREP_DATA_DIR="{box.data_dir}"') as port:
        other = Laptop(short, port)
        try:
            assert "Never guess." in other("resume", "--session", "work", url=other.url()).ok().out
        finally:
            other.hang_up()


@real
@pytest.mark.slow
def test_a_box_that_forbids_it_is_named(short: Path, box: Daemon) -> None:
    with sshd(short, AllowStreamLocalForwarding="no") as port:
        other = Laptop(short, port)
        try:
            url = other.url(box.data_dir).replace(" ", "%20")
            assert "AllowStreamLocalForwarding" in other("session", url=url).refused(3)
        finally:
            other.hang_up()
