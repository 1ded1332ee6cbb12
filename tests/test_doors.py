"""Who may come in, by which door."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from tests.daemons import Daemon, running_daemon
from tests.helpers import PATIENCE_S

from sitrepd.errors import SitrepError
from sitrepd.links import Links
from sitrepd.settings import load_settings


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("doors")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        with running_daemon(folder / "store") as daemon:
            yield daemon


def ask(daemon: Daemon, path: str, method: str = "GET", **headers: str) -> httpx2.Response:
    with httpx2.Client(base_url=daemon.url, trust_env=False) as client:
        return client.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})


def bearer(daemon: Daemon) -> str:
    return "Bearer " + (daemon.data_dir / "token").read_text().strip()


def test_health_is_open_and_says_nothing_else(shared: Daemon) -> None:
    told = ask(shared, "/api/v1/health")
    assert (told.status_code, told.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/api/v1/about", "/api/v1/launches", "/api/v1/openapi.json", "/", "/api/v1/nothing"])
def test_everything_else_wants_the_token(shared: Daemon, path: str) -> None:
    told = ask(shared, path)
    assert told.status_code == 401
    assert told.headers["content-type"] == "application/problem+json"
    assert "Authorization: Bearer TOKEN" in told.json()["detail"]
    assert told.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("token", ["Bearer wrong", "Bearer ", "Basic eDp5", "bearer", "Bearer \u00e9"])
def test_a_wrong_token_is_refused(shared: Daemon, token: str) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", int(shared.url.rsplit(":", 1)[1]))
    connection.request("GET", "/api/v1/about", headers={"Authorization": token.encode("latin-1")})
    assert connection.getresponse().status == 401
    connection.close()


def test_the_token_opens(shared: Daemon) -> None:
    assert ask(shared, "/api/v1/about", Authorization=bearer(shared)).json()["data_dir"] == str(shared.data_dir)


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil:8791", ""])
def test_a_forged_host_is_refused(shared: Daemon, host: str) -> None:
    told = ask(shared, "/api/v1/about", Host=host, Authorization=bearer(shared))
    assert told.status_code in (400, 421)
    assert "pid" not in told.text


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_own_names_are_taken(shared: Daemon, name: str) -> None:
    port = shared.url.rsplit(":", 1)[1]
    assert ask(shared, "/api/v1/about", Host=f"{name}:{port}", Authorization=bearer(shared)).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "https://localhost.evil"])
def test_a_foreign_origin_is_refused_even_with_the_token(shared: Daemon, origin: str) -> None:
    assert ask(shared, "/api/v1/about", Origin=origin, Authorization=bearer(shared)).status_code == 403


def test_a_link_opens_once_and_the_cookie_stays(shared: Daemon) -> None:
    link = shared.client.post("/api/v1/links").json()["url"]
    with httpx2.Client(trust_env=False) as browser:
        opened = browser.get(link)
        assert opened.status_code == 303
        cookie = opened.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert browser.get(f"{shared.url}/api/v1/about").status_code == 200
    with httpx2.Client(trust_env=False) as other:
        assert other.get(link).status_code == 410
        assert other.get(f"{shared.url}/api/v1/about").status_code == 401


def test_a_change_by_cookie_must_come_from_our_page(shared: Daemon) -> None:
    with httpx2.Client(trust_env=False) as browser:
        browser.get(shared.client.post("/api/v1/links").json()["url"])
        url = f"{shared.url}/api/v1/sessions"
        assert browser.post(url, json={"name": "x"}).status_code == 403
        assert browser.post(url, json={"name": "x"}, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
        assert browser.post(url, json={"name": "x"}, headers={"Origin": shared.url}).status_code == 201


def test_a_forged_cookie(shared: Daemon) -> None:
    assert ask(shared, "/api/v1/about", Cookie="sitrep=abc.def").status_code == 401
    assert ask(shared, "/api/v1/about", Cookie="sitrep=").status_code == 401


def test_a_cookie_outlives_the_daemon() -> None:
    links = Links("token", 60)
    cookie = links.redeem(links.make())
    assert cookie is not None
    assert Links("token", 60).knows(cookie)
    assert not Links("another", 60).knows(cookie)


def test_a_link_gets_too_old() -> None:
    links = Links("token", -1)
    assert links.redeem(links.make()) is None


def test_a_browser_is_told_how_to_come_in(shared: Daemon) -> None:
    told = ask(shared, "/", Accept="text/html")
    assert told.status_code == 401
    assert "sitrep open" in told.text


def test_the_socket_is_for_this_user(shared: Daemon) -> None:
    path = shared.data_dir / "sitrep.sock"
    assert path.stat().st_mode & 0o777 == 0o600
    assert shared.client.get("/api/v1/about").status_code == 200


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_the_socket_refuses_another_user(shared: Daemon) -> None:
    """Even where the mode were opened by mistake."""
    path = shared.data_dir / "sitrep.sock"
    script = f"""
import os, socket
folder = os.open({str(path.parent)!r}, os.O_PATH)
os.setgid(65534); os.setuid(65534)
connection = socket.socket(socket.AF_UNIX)
connection.connect(f"/proc/self/fd/{{folder}}/sitrep.sock")
connection.sendall(b"GET /api/v1/about HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
print(connection.recv(100))
"""
    path.chmod(0o666)
    path.parent.chmod(0o755)
    try:
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    finally:
        path.chmod(0o600)
        path.parent.chmod(0o700)
    assert "HTTP/1.1 200" not in done.stdout
    assert done.stdout.strip() == "b''" or "ConnectionResetError" in done.stderr or "BrokenPipeError" in done.stderr


def test_a_long_path_has_a_socket_too(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 60) / ("y" * 60)
    folder.mkdir(parents=True)
    from sitrepd.server import listen_unix

    listener = listen_unix(folder / "sitrep.sock")
    handle = os.open(folder, os.O_PATH)
    client = socket.socket(socket.AF_UNIX)
    client.connect(f"/proc/self/fd/{handle}/sitrep.sock")
    client.close()
    listener.close()
    os.close(handle)


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "box"])
def test_another_address_is_refused_without_tls(host: str) -> None:
    with pytest.raises(SitrepError, match="SITREP_ALLOW_REMOTE=true"):
        load_settings(host=host)
    assert load_settings(host=host, allow_remote=True).host == host
    assert load_settings(host=host, tls_certfile=Path("/c"), tls_keyfile=Path("/k")).host == host


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [("port", 70000, "SITREP_PORT"), ("log_level", "loud", "debug, info"), ("idle_after_s", 0, "SITREP_IDLE_AFTER_S")],
)
def test_a_bad_setting_is_named(name: str, value: object, why: str) -> None:
    with pytest.raises(SitrepError, match=why):
        load_settings(**{name: value})


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(AssertionError, match=f"127.0.0.1:{port} cannot be listened on: Address already in use"):
            Daemon(tmp_path / "store", port=port).start()
    assert not (tmp_path / "store").exists()
