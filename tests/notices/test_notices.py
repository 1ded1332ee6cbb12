"""What is waited for is told to webhooks, ntfy and Slack, by receivers that are real servers here."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.daemons import application
from tests.helpers import free_port, wait_until

from sitrepd.errors import SitrepError
from sitrepd.notices import clocks
from sitrepd.notices.models import Notice
from sitrepd.notices.send import send
from sitrepd.notices.targets import Target, ntfy, slack, webhook
from sitrepd.runtime import Runtime
from sitrepd.settings import load_settings

API = "/api/v1"
NOTICE = Notice(kind="failed", subject="L1", session="S1 x", title="L1 é is failed", text="<oom> & more", at="2026")


def runtime_of(client: TestClient) -> Runtime:
    found: Runtime = client.app.state.runtime  # type: ignore[attr-defined]
    return found


class Receiver:
    """Keeps what it is sent; `answers` are the statuses that it gives, then 200."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.answers: list[int] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(outer.answers.pop(0) if outer.answers else 200)
                self.send_header("Location", f"{outer.url}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def do_GET(self) -> None:
                outer.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, b""))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def end(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Receiver()
    yield found
    found.end()


@pytest.mark.slow
def test_a_server_that_becomes_ready_or_fails_is_told(tmp_path: Path, receiver: Receiver) -> None:
    everybody = {
        "notify_webhook": [f"{receiver.url}/hook"],
        "notify_ntfy": [f"{receiver.url}/topic"],
        "notify_slack": [f"{receiver.url}/slack"],
    }
    with application(tmp_path / "store", **everybody) as client:
        client.post(f"{API}/sessions", json={"name": "tuning"}).raise_for_status()
        command = f"echo booting; sleep 0.2; echo now-it-runs; exec sleep 600 # {free_port()}"
        told = {"command": command, "name": "two", "ready_pattern": "now-it-runs", "cwd": str(tmp_path)}
        launch = client.post(f"{API}/launches", json=told).raise_for_status().json()["id"]
        wait_until(lambda: len(receiver.got) == 3)
        got = {path: (headers, body) for path, headers, body in receiver.got}
        notice = json.loads(got["/hook"][1])
        assert (notice["kind"], notice["subject"], notice["session"]) == ("ready", launch, "S1 tuning")
        assert got["/topic"][0]["title"] == f"{launch} two is ready (S1 tuning)"
        assert json.loads(got["/slack"][1])["text"].startswith(f"{launch} two is ready (S1 tuning)\n")
        client.post(f"{API}/launches/{launch}/stop", json={"grace_s": 1, "wait_s": 10}).raise_for_status()
        failing = {"command": "echo no; exit 3", "ready_pattern": "never", "cwd": str(tmp_path)}
        client.post(f"{API}/launches", json=failing).raise_for_status()
        wait_until(lambda: len(receiver.got) == 6)
        kinds = {json.loads(body)["kind"] for path, _, body in receiver.got if path == "/hook"}
        assert kinds == {"ready", "failed"}  # nobody asked for what was stopped to be told


def test_imported_facts_are_no_news(tmp_path: Path, receiver: Receiver) -> None:
    with application(tmp_path / "store", notify_webhook=[receiver.url]) as client:
        client.post(f"{API}/sessions", json={"name": "s"}).raise_for_status()
        record = {"start": False, "command": "x", "state": "ready"}
        client.post(f"{API}/launches", json=record).raise_for_status()
        client.post(f"{API}/sweeps", json={"name": "w", "state": "running"}).raise_for_status()
        client.patch(f"{API}/sweeps/W1", json={"state": "done"}).raise_for_status()
        wait_until(lambda: receiver.got)
        (one,) = receiver.got
        assert json.loads(one[2])["title"] == "Sweep W1 w is done (S1 s)"


@pytest.mark.slow
def test_of_a_sweep_its_end_is_told_and_not_each_of_its_servers(tmp_path: Path, receiver: Receiver) -> None:
    with application(tmp_path / "store", notify_webhook=[receiver.url]) as client:
        client.post(f"{API}/sessions", json={"name": "s"}).raise_for_status()
        sweep = client.post(f"{API}/sweeps", json={"name": "w", "state": "running"}).json()["id"]
        command = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo no; exit 3"
        for name in ("alone", "trial"):
            told = {"argv": ["sh", "-c", command], "name": name, "ready_pattern": "never", "cwd": str(tmp_path)}
            launch = client.post(f"{API}/launches", json=told).raise_for_status().json()["id"]
        client.post(f"{API}/trials", json={"sweep": sweep, "launch": launch, "state": "running"}).raise_for_status()
        (tmp_path / "go").touch()
        wait_until(lambda: client.get(f"{API}/launches/{launch}").json()["state"] == "failed")
        wait_until(lambda: receiver.got)
        client.patch(f"{API}/sweeps/{sweep}", json={"state": "paused"}).raise_for_status()
        wait_until(lambda: len(receiver.got) == 2)
        titles = [json.loads(body)["title"] for _, _, body in receiver.got]
        assert titles == ["L1 alone is failed (S1 s)", f"Sweep {sweep} w is paused (S1 s)"]


def test_what_fails_is_sent_again_and_what_is_refused_is_not(receiver: Receiver) -> None:
    receiver.answers = [503, 429]
    assert send(Target(f"{receiver.url}/x", webhook), NOTICE, (0, 0, 0))
    assert len(receiver.got) == 3
    receiver.answers = [403]
    assert not send(Target(f"{receiver.url}/x", webhook), NOTICE, (0, 0, 0))
    assert len(receiver.got) == 4
    assert not send(Target(f"http://127.0.0.1:{free_port()}/secret", webhook), NOTICE, (0,))
    assert Target("https://hooks.example/services/secret", slack).name == "https://hooks.example/…"


def test_a_receiver_that_sends_elsewhere_gets_nothing_there(receiver: Receiver) -> None:
    receiver.answers = [302]
    address = receiver.url.replace("//", "//:secret@")
    assert not send(Target(f"{address}/x", webhook), NOTICE, (0, 0))
    assert [path for path, _, _ in receiver.got] == ["/x"]


def test_a_receiver_that_does_not_speak_http_ends_no_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def answer() -> None:
            there, _ = server.accept()
            with there:
                there.recv(65536)
                there.sendall(b"who are you?\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        assert not send(Target(f"http://127.0.0.1:{server.getsockname()[1]}/", webhook), NOTICE, (0,))
        answering.join()


def test_each_is_spoken_to_in_its_own_way() -> None:
    plain = webhook("https://u:p%40@h.example:8443/x?y=1", NOTICE)
    assert plain.url == "https://h.example:8443/x?y=1"
    assert plain.headers["Authorization"] == "Basic dTpwQA=="
    topic = ntfy("https://:tk_1@ntfy.example/topic", NOTICE)
    assert topic.headers["Authorization"] == "Bearer tk_1"
    assert topic.headers["Title"].isascii()
    assert topic.headers["Priority"] == "high"
    lines = ntfy("https://ntfy.example/topic", NOTICE.model_copy(update={"title": "é\nb " * 60})).headers["Title"]
    assert "\n" not in lines
    assert topic.body == b"<oom> & more"
    assert json.loads(slack("https://s", NOTICE).body) == {"text": "L1 é is failed\n&lt;oom&gt; &amp; more"}


def test_a_power_cap_alone_is_no_news() -> None:
    capped = SimpleNamespace(index=0, throttle=("power cap",))
    hot = SimpleNamespace(index=3, throttle=("power cap", "thermal (hardware)"))
    assert clocks.throttled([capped, hot]) == {"GPU 3": "thermal (hardware)"}


def test_heat_that_comes_and_goes_is_told_once_until_it_was_gone_for_a_while(client: TestClient) -> None:
    watch, hot = clocks.Clocks(runtime_of(client)), {"GPU 3": "thermal (hardware)"}
    assert watch.begun(hot, 0) == hot
    assert watch.begun({}, 5) == {}
    assert watch.begun(hot, 10) == {}
    assert watch.begun(hot | {"GPU 4": "power brake"}, 200) == {"GPU 4": "power brake"}
    assert watch.begun(hot, 400) == {}, "seen at 200 s"
    assert watch.begun(hot, 1000) == hot


def test_throttling_is_told_to_all_who_wait_in_the_same_words(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clocks, "_LOOK_S", 0.05)
    hot = SimpleNamespace(index=3, throttle=("power cap", "thermal (hardware)"))
    with application(tmp_path / "store", notify_webhook=[receiver.url]) as client:
        session = client.post(f"{API}/sessions", json={"name": "s"}).json()["id"]
        far = client.get(f"{API}/sessions/{session}/news", params={"since": 2**63, "timeout_s": 0})
        assert far.status_code == 422
        begun = client.get(f"{API}/sessions/{session}/news", params={"timeout_s": 0}).json()
        assert begun["data"] == []

        def told() -> Any:
            runtime_of(client).live["hardware"] = SimpleNamespace(samples=(hot,), host_id=1, facts=())
            return receiver.got

        wait_until(told)
        notice = json.loads(receiver.got[0][2])
        assert (notice["kind"], notice["subject"]) == ("throttling", "H1")
        assert (notice["title"], notice["text"]) == ("GPU 3 throttled", "GPU 3: thermal (hardware)")
        asked = client.get(f"{API}/sessions/{session}/news", params={"since": begun["since"], "timeout_s": 30}).json()
        assert [(one["kind"], one["text"]) for one in asked["data"]] == [("throttling", notice["text"])]
        body = {"sessionID": "ses_1", "since": begun["since"]}
        far = client.post(f"{API}/hooks/opencode/news", json={"sessionID": "ses_1", "since": 10**30}).json()
        assert far["text"] == ""
        by_plugin = client.post(f"{API}/hooks/opencode/news", json=body).json()
        assert by_plugin == {"since": asked["since"], "text": "GPU 3 throttled. GPU 3: thermal (hardware)"}
        assert client.get(f"{API}/sessions/{session}/news", params={"since": asked["since"], "timeout_s": 0}).json() == {
            "since": asked["since"], "data": [],
        }  # fmt: skip


def test_who_waits_is_answered_when_it_happens_and_of_its_own_session_alone(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        mine = client.post(f"{API}/sessions", json={"name": "mine"}).json()["id"]
        other = client.post(f"{API}/sessions", json={"name": "other"}).json()["id"]
        sweeps = {
            one: client.post(f"{API}/sessions/{one}/sweeps", json={"name": one, "state": "running"}).json()["id"]
            for one in (mine, other)
        }
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: client.get(f"{API}/sessions/{mine}/news", params={"timeout_s": 60}).json())
            client.patch(f"{API}/sweeps/{sweeps[other]}", json={"state": "done"}).raise_for_status()

            def done() -> bool:
                for state in ("running", "done"):
                    client.patch(f"{API}/sweeps/{sweeps[mine]}", json={"state": state}).raise_for_status()
                return waiting.done()

            wait_until(done, interval_s=0.5)
        assert {one["subject"] for one in waiting.result()["data"]} == {sweeps[mine]}


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(SitrepError, match="SITREP_NOTIFY_SLACK"):
        load_settings(notify_slack=["file:///etc/passwd"])
    with pytest.raises(SitrepError, match="notify_on"):
        load_settings(notify_on=["everything"])
