"""A daemon that was told the reference session, and a browser to look at it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.daemons import Daemon, running_daemon
from tests.stubs import nvml_library, nvml_stub  # noqa: F401

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

REFERENCE = Path(__file__).parent.parent / "data" / "reference-session.jsonl"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A real daemon with the reference session as S1, one for the tests of a file."""
    folder = tmp_path_factory.mktemp("dashboard")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        with running_daemon(folder / "store", idle_after_s=3600) as daemon:
            tell_reference(daemon)
            yield daemon


def tell_reference(daemon: Daemon) -> None:
    answer = daemon.client.post("/api/v1/import?name=reference-session.jsonl", content=REFERENCE.read_bytes())
    assert answer.status_code == 201, answer.text


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.fail("Chromium is needed: apt-get install chromium", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """One tab: its page, what its console complained of, and what it asked for."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.asked: list[str] = []
        page.on(
            "console", lambda told: self.complaints.append(told.text) if told.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.set_default_timeout(10_000)

    def parts(self) -> list[str]:
        """Parts that were fetched anew, in order."""
        return [url.rsplit("/", 1)[1] for url in self.asked if "/s/S1/" in url]

    def wait_live(self) -> None:
        self.page.wait_for_selector('#connection[data-state="live"]')


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens a daemon's dashboard by a new link, in a browser that knows nothing yet."""
    contexts: list[Any] = []

    def _visit(daemon: Daemon, path: str = "/", **options: Any) -> Visit:
        context = chromium.new_context(**options)
        contexts.append(context)
        found = Visit(context.new_page())
        found.page.goto(daemon.client.post("/api/v1/links").json()["url"])
        if path != "/":
            found.page.goto(daemon.url + path)
        return found

    yield _visit
    for context in contexts:
        context.close()
