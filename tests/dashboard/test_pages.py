"""Pages and their parts by HTTP, without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.daemons import application
from tests.dashboard.conftest import REFERENCE

from sitrepd.clock import utc_now
from sitrepd.dashboard import assets, history
from sitrepd.dashboard.parts import PARTS
from sitrepd.history.models import FoundFact

if TYPE_CHECKING:
    from fastapi.testclient import TestClient

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'"


@pytest.fixture
def reference(client: TestClient) -> TestClient:
    assert client.post("/api/v1/import", content=REFERENCE.read_bytes()).status_code == 201
    return client


@pytest.fixture
def stranger(client: TestClient) -> Iterator[TestClient]:
    """A browser that has neither token nor cookie."""
    del client.headers["Authorization"]
    client.headers["Accept"] = "text/html"
    return client


def test_pages_of_what_was(reference: TestClient) -> None:
    for text in ("first", "second"):
        reference.post("/api/v1/directives", json={"text": f"{text} {EVIL}"}).raise_for_status()
        reference.post("/api/v1/sessions/S1/checkpoints").raise_for_status()
    reference.post("/api/v1/sessions/S1/resume", json={"to": EVIL}).raise_for_status()
    timeline = reference.get("/s/S1/timeline").text
    assert timeline.index("handed over") < timeline.index("checkpoint written") < timeline.index("session opened")
    assert "session opened" not in reference.get("/s/S1/timeline", params={"kind": "finding"}).text
    assert reference.get("/s/S1/timeline", params={"kind": "wish"}).status_code == 422
    found = reference.get("/search", params={"q": "accept rate", "session": "S1"}).text
    assert "<mark>accept</mark> <mark>rate</mark>" in found
    compared = reference.get("/compare/C1/C2").text
    assert "Added since C1" in compared
    assert reference.get("/compare/C1/C9").status_code == 404
    checkpoint = reference.get("/f/C2").text
    assert "not echoed" in checkpoint
    assert 'href="/compare/C1/C2"' in checkpoint
    pages = (timeline, found, compared, checkpoint, reference.get("/search", params={"q": EVIL}).text)
    assert [page for page in pages if "<script>alert" in page or "<img" in page] == []


def test_a_newcomer_is_told_what_to_do(client: TestClient) -> None:
    page = client.get("/").text
    assert "No session is open" in page
    assert "sitrep init" in page
    assert "sitrep launch -- python -m sglang.launch_server" in page


def test_the_only_open_session_is_the_first_page(reference: TestClient) -> None:
    page = reference.get("/").text
    for text in (
        "EAGLE-3 for Kimi-K2.5 INT4",
        "88.8",
        "94.0",
        "+5.9 %",
        "85.1",
        "86.7",
        "No hacks that cut precision.",
    ):
        assert text in page
    assert "about 19 %" in page
    assert "NCCL_BUFFSIZE=16777216 NCCL_NTHREADS=512" in page
    assert page.count("as recorded, not watched") == 1
    assert re.search(r"Command of the best, EAGLE-3, 2 steps:\s+not recorded", page)


def test_of_several_sessions_one_is_chosen(reference: TestClient) -> None:
    reference.post("/api/v1/sessions", json={"name": "another", "goal": "something else"})
    page = reference.get("/").text
    assert "Which session?" in page
    assert 'href="/s/S1"' in page
    assert 'href="/s/S2"' in page
    assert "All sessions" in reference.get("/s/S1").text
    assert "something else" in reference.get("/s/S2").text


def test_closed_sessions_are_kept_in_sight(reference: TestClient) -> None:
    reference.post("/api/v1/sessions/S1/close")
    page = reference.get("/").text
    assert "No session is open" in page
    assert "Closed" in page
    assert 'href="/s/S1"' in page
    assert "94.0" in reference.get("/s/S1").text


@pytest.mark.parametrize("part", list(PARTS))
def test_each_part_is_on_the_page_as_it_is_fetched_alone(reference: TestClient, part: str) -> None:
    page, alone = reference.get("/s/S1").text, reference.get(f"/s/S1/{part}").text
    assert f'hx-get="/s/S1/{part}"' in page
    assert alone.strip()[:60] in page
    assert "<html" not in alone


@pytest.mark.parametrize(
    ("path", "status"),
    [("/s/S99", 404), ("/s/S1/nothing", 404), ("/f/L99", 404), ("/f/nonsense", 404), ("/s/../x", 404)],
)
def test_what_is_not_there_is_told_on_a_page(reference: TestClient, path: str, status: int) -> None:
    answer = reference.get(path)
    assert answer.status_code == status
    if path != "/s/../x":
        assert answer.headers["content-type"].startswith("text/html")
        assert 'href="/"' in answer.text


def test_every_fact_has_a_page(reference: TestClient) -> None:
    for fact in ("S1", "H1", "M1", "D1", "F1", "R1", "B3", "A1", "L1", "N1"):
        answer = reference.get(f"/f/{fact}")
        assert answer.status_code == 200, fact
        assert f">{fact}<" in answer.text
    assert "94.0 tok/s" in reference.get("/f/B3").text
    assert "2 draft" not in reference.get("/f/L1").text


def test_told_text_stays_text(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": EVIL, "goal": EVIL})
    told = {"findings": {"kind": "rejected", "title": EVIL, "reason": EVIL, "detail": EVIL, "evidence": [EVIL]},
            "directives": {"text": EVIL}, "next-steps": {"text": EVIL}, "artifacts": {"path": EVIL, "role": EVIL},
            "models": {"name": EVIL, "note": EVIL}, "references": {"name": EVIL},
            "launches": {"name": EVIL, "command": EVIL, "start": False},
            "benchmarks": {"name": EVIL, "note": EVIL, "metrics": {"output_throughput": 1}},
            "hosts": {"name": EVIL, "gpus": [{"index": 0, "name": EVIL}], "interconnect": EVIL}}  # fmt: skip
    for plural, body in told.items():
        assert client.post(f"/api/v1/{plural}", json=body).status_code == 201, plural
    pages = [client.get(path).text for path in ("/", "/sessions", "/f/F1", "/f/L1", "/f/B1", "/f/S1", "/s/S1/findings")]
    for page in pages:
        assert "&lt;script&gt;" in page
        assert "<img" not in page
        assert re.findall(r"<script(?![^>]* src=\"/static/)", page) == []


def test_pages_are_kept_to_themselves(reference: TestClient) -> None:
    for path in ("/", "/s/S1/findings", "/f/F1", "/s/S99"):
        headers = reference.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


def test_no_page_needs_inline_style_or_script(reference: TestClient) -> None:
    for path in ("/", "/sessions", "/f/L1", "/f/F1"):
        page = reference.get(path).text
        assert " style=" not in page
        assert "<style" not in page
        assert not re.search(r"\son\w+=", page)
        assert not re.search(r'(?:src|href)="https?:', page)


def test_a_stranger_is_told_how_to_come_in(stranger: TestClient) -> None:
    answer = stranger.get("/")
    assert answer.status_code == 401
    assert "sitrep open" in answer.text
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for path in ("/s/S1", "/f/F1", "/part/home", "/stream", "/s/S1/findings"):
        assert stranger.get(path).status_code == 401


def test_a_forged_host_sees_nothing(reference: TestClient) -> None:
    for path in ("/", "/static/sitrep.css", "/open/x", "/stream"):
        assert reference.get(path, headers={"Host": "evil.example:8791"}).status_code == 421


def test_a_used_link_says_so_on_a_page(stranger: TestClient) -> None:
    answer = stranger.get("/open/never-made")
    assert answer.status_code == 410
    assert "used or is too old" in answer.text
    assert "sitrep open" in answer.text
    assert "set-cookie" not in answer.headers


def test_static_files_are_kept_by_their_edition(stranger: TestClient) -> None:
    stranger.headers["Accept"] = "*/*"
    named = stranger.get(assets.url("sitrep.css"))
    assert named.status_code == 200
    assert "immutable" in named.headers["cache-control"]
    assert named.headers["x-content-type-options"] == "nosniff"
    assert stranger.get("/static/sitrep.css?v=old").headers["cache-control"] == "no-cache"
    for name in ("sitrep.js", "icon.svg", "vendor/htmx-4.0.1.min.js", "vendor/hx-sse-4.0.1.min.js"):
        assert stranger.get(assets.url(name)).status_code == 200
    assert stranger.get("/static/../routes.py").status_code in (401, 404)
    assert stranger.get("/static/%2e%2e/routes.py").status_code == 404


@pytest.mark.slow
def test_a_users_own_template_comes_first(tmp_path: Path) -> None:
    own = tmp_path / "own" / "dashboard" / "parts"
    own.mkdir(parents=True)
    (own / "directives.html.j2").write_text("<h2>House rules</h2>{% for one in directives %}{{ one.text }}{% endfor %}")
    with application(tmp_path / "store", templates_dir=tmp_path / "own") as client:
        client.post("/api/v1/sessions", json={"name": "s"})
        client.post("/api/v1/directives", json={"text": "a < b"})
        page = client.get("/").text
    assert "<h2>House rules</h2>a &lt; b" in page


def test_a_superseded_finding_carries_the_word(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": "s"})
    client.post("/api/v1/findings", json={"kind": "decision", "title": "old", "status": "confirmed"})
    client.post(
        "/api/v1/findings", json={"kind": "decision", "title": "new", "status": "confirmed", "supersedes": "F1"}
    )
    part = client.get("/s/S1/findings").text
    assert part.index("new") < part.index("old")
    assert re.search(r'id="F1" class="superseded".*?superseded</span>', part, re.S)


def test_steps_say_what_they_wait_for(reference: TestClient) -> None:
    part = reference.get("/s/S1/steps").text
    assert re.search(r"Waits for .*L1</a> \(loading, as recorded\)", part)
    reference.patch("/api/v1/next-steps/N1", json={"state": "done"})
    part = reference.get("/s/S1/steps").text
    assert "1 finished" in part
    assert re.search(r"Waits for .*N1</a> \(done\)", part)


def test_a_launch_of_no_session_is_not_lost(client: TestClient) -> None:
    assert client.get("/s/none").status_code == 200
    assert "No server was launched" in client.get("/s/none/launches").text


def test_looking_does_not_count_as_activity(reference: TestClient) -> None:
    runtime = reference.app.state.runtime  # type: ignore[attr-defined]
    runtime.activity._last.clear()
    for path in ("/", "/s/S1", "/s/S1/findings", "/f/L1", "/sessions"):
        reference.get(path)
    assert runtime.activity._last == {}


def test_only_what_was_looked_for_is_marked(client: TestClient) -> None:
    client.post("/api/v1/sessions", json={"name": "s"}).raise_for_status()
    told = {"kind": "decision", "title": "Quagga first", "detail": "a **bold** claim, x**2 and \x02odd\x03 of okapi"}
    client.post("/api/v1/findings", json=told).raise_for_status()
    page = client.get("/search", params={"q": "okapi"}).text
    assert re.findall("<mark>(.*?)</mark>", page) == ["okapi"]
    assert "a **bold** claim" in page
    snippet = client.get("/api/v1/search", params={"q": "okapi"}).json()["data"][0]["snippet"]
    assert "**okapi**" in snippet


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("F1 Quagga", "Quagga"),
        ("\x02F1\x03 Quagga", "Quagga"),
        ("\x02F1 Quagga\x03 first", "\x02Quagga\x03 first"),
        ("F1 \x02Quagga\x03", "\x02Quagga\x03"),
        ("\x02Quagga\x03 F1", "\x02Quagga\x03 F1"),
        (None, ""),
    ],
)
def test_a_name_stands_without_its_id(name: str | None, shown: str) -> None:
    found = FoundFact(id="F1", type="finding", at=utc_now(), state=None, session=None, name=name, snippet="")
    assert history._name(found) == shown
