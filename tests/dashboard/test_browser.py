"""The dashboard in a real Chromium, on a real daemon."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from tests.daemons import Daemon, running_daemon
from tests.dashboard.conftest import Visit
from tests.helpers import free_port, wait_until
from tests.stubs import NvmlStub

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

Open = Callable[..., Visit]


def replay(daemon: Daemon, folder: Path, seconds: float) -> str:
    """Starts a replayed SGLang start in the reference session; its id."""
    command = (
        f"nohup {shlex.quote(sys.executable)} -m sitrepd.demo.replay --duration {seconds} -m sglang.launch_server "
        f"--model-path /models/kimi --tp-size 8 --port {free_port()} > {folder}/server.log 2>&1 &"
    )
    body = {"command": command, "cwd": str(folder), "name": "replay"}
    answer = daemon.client.post("/api/v1/sessions/S1/launches", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


@pytest.fixture
def start(told: Daemon, tmp_path: Path) -> Iterator[Callable[[float], str]]:
    """Starts replays that are stopped at the end."""
    started: list[str] = []

    def _start(seconds: float) -> str:
        started.append(replay(told, tmp_path, seconds))
        return started[-1]

    yield _start
    for number in started:
        told.client.post(f"/api/v1/launches/{number}/stop", json={"grace_s": 1, "wait_s": 10})


def overflow(seen: Visit) -> int:
    return int(seen.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_a_link_opens_once(told: Daemon, chromium: Browser) -> None:
    link = told.client.post("/api/v1/links").json()["url"]
    first, second = chromium.new_context(), chromium.new_context()
    page = first.new_page()
    answer = page.goto(link)
    assert answer is not None
    assert answer.status == 200
    assert urlsplit(page.url).path == "/"
    again = second.new_page()
    answer = again.goto(link)
    assert answer is not None
    assert answer.status == 410
    assert "sitrep open" in again.inner_text("main")
    answer = again.goto(told.url)
    assert answer is not None
    assert answer.status == 401
    first.close()
    second.close()


def test_the_reference_session_is_on_the_page(told: Daemon, visit: Open) -> None:
    seen = visit(told, "/s/S1")
    best = seen.page.locator("tr.best")
    assert best.count() == 1
    for text in ("EAGLE-3, 2 steps", "best", "one run", "94.0", "+5.9 %"):
        assert text in best.inner_text()
    main = seen.page.inner_text("main")
    for text in ("88.8", "85.1", "-4.2 %", "86.7", "-2.4 %", "about 19 % to about 47 %", "as recorded, not watched"):
        assert text in main
    for text in (
        "No hacks that cut precision.",
        "Only legitimate throughput improvements count.",
        "Optimize from data, do not guess.",
    ):
        assert text in seen.page.inner_text("#part-directives")
    command = seen.page.inner_text("#command-L1")
    assert command.startswith("NCCL_PROTO=LL NCCL_ALGO=Ring")
    assert command.endswith("sglang_eagle3_nccl_3step.log 2>&1 &")


def test_a_fact_that_is_told_appears_by_itself(told: Daemon, visit: Open) -> None:
    seen = visit(told, "/s/S1")
    seen.wait_live()
    seen.page.evaluate("window.notReloaded = true")
    title = "NUMA <b>pinning</b> changes nothing"
    told.client.post("/api/v1/sessions/S1/findings", json={"kind": "rejected", "title": title, "reason": "Measured."})
    seen.page.wait_for_selector(f"#part-findings :text-is({title!r})")
    told.client.patch("/api/v1/next-steps/N1", json={"state": "done"})
    seen.page.wait_for_selector("#part-steps summary:has-text('1 finished')")
    told.client.patch("/api/v1/next-steps/N1", json={"state": "todo"})
    assert seen.page.evaluate("window.notReloaded")
    assert seen.complaints == []
    assert set(seen.parts()) <= {"findings", "steps", "gpus"}


def test_progress_moves_without_fetching_the_page_anew(
    told: Daemon, visit: Open, start: Callable[[float], str]
) -> None:
    seen = visit(told, "/s/S1")
    seen.wait_live()
    number = start(12)
    bar = seen.page.locator(f'#{number} progress[data-live="{number}.bar"]')
    bar.wait_for()
    assert seen.page.inner_text(f"#{number} header .state") in ("starting", "loading")
    shares: set[float] = set()

    def moved() -> bool:
        shares.add(float(bar.evaluate("bar => bar.hasAttribute('value') ? bar.value : -1")))
        return len(shares - {-1.0}) >= 4

    wait_until(moved, interval_s=0.2)
    assert seen.page.title().endswith("replay")
    assert "%" in seen.page.title()
    seen.page.wait_for_selector(f"#{number} header .state.ready", timeout=30_000)
    assert "Phases of its start" in seen.page.inner_text(f"#{number} summary >> nth=0")
    wait_until(lambda: "replay" not in seen.page.title())
    assert seen.parts().count("launches") <= 40
    assert set(seen.parts()) <= {"launches", "steps", "checkpoint", "things", "gpus"}
    assert seen.complaints == []


def test_state_is_told_to_who_cannot_see_it(told: Daemon, visit: Open, start: Callable[[float], str]) -> None:
    number = start(3)
    seen = visit(told, "/s/S1")
    said = seen.page.locator(f"#{number} [role=status]")
    wait_until(lambda: said.inner_text().endswith(": ready"), interval_s=0.1)
    assert said.inner_text() == f"{number} replay: ready"


def test_it_can_be_used_by_keyboard_alone(told: Daemon, visit: Open) -> None:
    seen = visit(told, "/s/S1", permissions=["clipboard-read", "clipboard-write"])
    page = seen.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    visited: list[str] = []
    for _ in range(40):
        page.keyboard.press("Tab")
        visited.append(
            page.evaluate(
                "(document.activeElement.dataset.copy ?? document.activeElement.id) || document.activeElement.tagName"
            )
        )
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", visited
        if page.evaluate("document.activeElement.dataset.copy") == "command-L1":
            break
    assert "command-L1" in visited
    page.keyboard.press("Enter")
    page.wait_for_selector("button:text-is('Copied')")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.inner_text("#command-L1")
    assert "--speculative-num-steps 3" in copied


def test_landmarks_and_headings(told: Daemon, visit: Open) -> None:
    seen = visit(told, "/s/S1")
    levels = seen.page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map(h => +h.tagName[1])")
    assert levels.count(1) == 1
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for selector in ("header", "main", "footer"):
        assert seen.page.locator(f"body > {selector}").count() == 1
    nameless = seen.page.evaluate(
        "[...document.querySelectorAll('button,a,progress,[role=meter],[role=region]')]"
        ".filter(e => !(e.textContent.trim() || e.getAttribute('aria-label'))).length"
    )
    assert nameless == 0
    doubled = seen.page.evaluate(
        "(ids => ids.filter((id, i) => ids.indexOf(id) !== i))([...document.querySelectorAll('[id]')].map(e => e.id))"
    )
    assert doubled == []


def test_nothing_is_fetched_from_elsewhere_and_nothing_is_refused(told: Daemon, visit: Open) -> None:
    seen = visit(told, "/s/S1")
    seen.wait_live()
    seen.page.goto(f"{told.url}/f/L1")
    seen.wait_live()
    seen.page.goto(f"{told.url}/sessions")
    seen.wait_live()
    assert {urlsplit(url).netloc for url in seen.asked} == {urlsplit(told.url).netloc}
    assert seen.complaints == []


def test_the_policy_holds_against_what_got_in(told: Daemon, visit: Open) -> None:
    seen = visit(told, "/s/S1")
    seen.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.owned = 1\">')")
    seen.page.evaluate(
        "() => { const s = document.createElement('script'); s.textContent = 'window.owned = 1'; document.body.append(s); }"
    )
    wait_until(lambda: len(seen.complaints) >= 2)
    assert all("Content Security Policy" in text or "404" in text or "401" in text for text in seen.complaints)
    assert not seen.page.evaluate("window.owned")


@pytest.mark.parametrize("path", ["/s/S1", "/f/L1", "/f/B3", "/sessions", "/s/none", "/f/L99"])
def test_a_phone_shows_all_of_it_without_moving_sideways(told: Daemon, visit: Open, path: str) -> None:
    seen = visit(told, path, viewport={"width": 360, "height": 740})
    assert overflow(seen) == 0
    small = seen.page.evaluate(
        "[...document.querySelectorAll('button')].filter(b => b.getBoundingClientRect().height < 44).length"
    )
    assert small == 0


def test_long_words_do_not_widen_a_phone(told: Daemon, visit: Open) -> None:
    word = "x" * 400
    told.client.post("/api/v1/sessions", json={"name": word, "goal": word})
    session = told.client.get("/api/v1/sessions").json()["data"][0]["id"]
    for plural, body in {
        "findings": {"kind": "constraint", "title": word, "detail": word, "evidence": [word]},
        "directives": {"text": word},
        "next-steps": {"text": word},
        "artifacts": {"path": f"/{word}", "note": word},
        "benchmarks": {"name": word, "note": word, "metrics": {"output_throughput": 1}},
        "launches": {"name": word, "command": word, "start": False},
        "models": {"name": word, "path": word, "note": word},
    }.items():
        assert told.client.post(f"/api/v1/sessions/{session}/{plural}", json=body).status_code == 201
    for path in (f"/s/{session}", "/sessions"):
        seen = visit(told, path, viewport={"width": 360, "height": 740})
        assert overflow(seen) == 0


CONTRAST = """() => {
  const channel = c => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = e => { for (; e; e = e.parentElement) {
    const found = parse(getComputedStyle(e).backgroundColor); if (found.length < 4 || found[3] === 1) return found; }
    return [255, 255, 255]; };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || e.closest('.unseen, script, .skip') || !e.offsetParent) continue;
    const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${e.className} ${walker.currentNode.textContent.trim().slice(0, 30)}`);
  }
  return poor; }"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_light_and_dark(told: Daemon, visit: Open, scheme: str) -> None:
    seen = visit(told, "/s/S1", color_scheme=scheme)
    ground = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    bright = sum(int(part) for part in ground[4:-1].split(",")[:3]) > 380
    assert bright == (scheme == "light")
    assert seen.page.evaluate(CONTRAST) == []


def test_motion_is_reduced_where_asked(told: Daemon, visit: Open) -> None:
    seen = visit(told, "/s/S1", reduced_motion="reduce")
    style = "getComputedStyle(document.querySelector('.skip')).transitionDuration"
    assert seen.page.evaluate(style) in ("0s", "")
    moving = seen.page.evaluate("document.getAnimations().length")
    assert moving == 0


def test_what_is_opened_or_focused_stays_so_when_a_part_is_fetched_anew(told: Daemon, visit: Open) -> None:
    told.client.post("/api/v1/sessions/S1/next-steps", json={"text": "Finished long ago.", "state": "done"})
    seen = visit(told, "/s/S1")
    seen.wait_live()
    seen.page.click("#part-steps summary")
    seen.page.focus("#part-steps summary")
    told.client.post("/api/v1/sessions/S1/next-steps", json={"text": "Something new to do."})
    seen.page.wait_for_selector("#part-steps :text('Something new to do.')")
    assert seen.page.evaluate("document.querySelector('#part-steps details').open")
    assert seen.page.evaluate("document.activeElement.tagName") == "SUMMARY"


def test_the_page_says_when_the_daemon_is_gone_and_comes_back_with_it(daemon: Daemon, visit: Open) -> None:
    daemon.client.post("/api/v1/sessions", json={"name": "first"})
    seen = visit(daemon)
    seen.wait_live()
    daemon.env["SITREP_PORT"] = str(urlsplit(daemon.url).port)
    daemon.end()
    seen.page.wait_for_selector('#connection[data-state="lost"]')
    daemon.start()
    daemon.client.post("/api/v1/directives", json={"text": "told while nobody listened"})
    seen.page.wait_for_selector('#connection[data-state="live"]', timeout=20_000)
    seen.page.wait_for_selector("#part-directives :text('told while nobody listened')")


def test_a_newcomer_sees_the_session_that_is_opened(daemon: Daemon, visit: Open) -> None:
    seen = visit(daemon)
    assert "No session is open" in seen.page.inner_text("main")
    seen.wait_live()
    daemon.client.post("/api/v1/sessions", json={"name": "My first"})
    seen.page.wait_for_selector("a:has-text('My first')")
    seen.page.click("a:has-text('My first')")
    assert "No server was launched in this session yet." in seen.page.inner_text("main")
    assert seen.complaints == []


@pytest.mark.gcc
def test_gpus_live(tmp_path: Path, nvml_stub: NvmlStub, visit: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml_stub.set(gpus=8, utilization=97, memory_used=80 << 30, power_mw=412000, temperature=71)
    for name, value in nvml_stub.env.items():
        monkeypatch.setenv(name, value)
    with running_daemon(tmp_path / "store", sample_idle_s=0.5) as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        seen = visit(daemon)
        seen.page.wait_for_selector(".gpu >> nth=7")
        seen.page.wait_for_selector('[data-live="gpu3.utilization-text"]:text-is("97 %")')
        nvml_stub.set(gpus=8, utilization=11, memory_used=80 << 30, reasons__3=0x20)
        seen.page.wait_for_selector('[data-live="gpu3.utilization-text"]:text-is("11 %")')
        assert seen.page.get_attribute('[data-live="gpu3.utilization"]', "aria-valuenow") == "11"
        seen.page.wait_for_selector('[data-live="gpu3.notice"]:text-is("thermal (software)")')
        seen.page.wait_for_selector('[data-live="gpu3.state"][data-word="throttling"]:text-is("throttling")')
        assert seen.complaints == []


@pytest.mark.gcc
def test_charts_of_the_gpus(tmp_path: Path, nvml_stub: NvmlStub, visit: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    nvml_stub.set(gpus=8, utilization=97, memory_used=80 << 30, power_mw=412000)
    for name, value in nvml_stub.env.items():
        monkeypatch.setenv(name, value)
    with running_daemon(tmp_path / "store", sample_idle_s=0.5) as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "s"})
        seen = visit(daemon)
        seen.page.click("#part-gpus a:has-text('Charts')")
        seen.page.wait_for_selector("#charts[data-state=drawn]")
        assert seen.page.locator("#charts canvas").count() == 6
        assert seen.page.locator("#charts figure >> nth=0 >> .u-series").count() == 9
        # After the first look only what is new is asked for.
        with seen.page.expect_response(lambda answer: "/gpus/past" in answer.url and "after=" in answer.url) as answer:
            pass
        assert len(answer.value.json()["at"]) <= 15
        seen.page.click("nav.ranges a:has-text('30 days')")
        seen.page.wait_for_selector("#charts[data-state=drawn]")
        assert "length_s=2592000" in next(url for url in reversed(seen.asked) if "/gpus/past" in url)
        assert overflow(seen) == 0
        assert "Paths between GPUs" in seen.page.inner_text("main")
        assert seen.page.locator("table.matrix tbody tr").count() >= 8
        assert seen.complaints == []
