"""The page of a comparison in a real Chromium: it follows what is measured, and fits a phone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.daemons import Daemon
from tests.dashboard.conftest import Visit

pytestmark = pytest.mark.browser


def test_a_comparison_follows_what_is_measured(told: Daemon, visit: Callable[..., Visit]) -> None:
    seen = visit(told, "/s/S1/comparison", viewport={"width": 390, "height": 844})
    seen.wait_live()
    table = seen.page.locator("table.comparison")
    assert "one run only: not known" in table.inner_text()
    assert seen.page.locator(".drawn svg").count() == 2
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert seen.page.evaluate(wide) == 0
    seen.page.evaluate("window.notReloaded = true")
    config = {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 3}
    body = {
        "name": "EAGLE-3, 3 steps",
        "config": config,
        "metrics": {"output_throughput": {"value": 95.1, "unit": "tok/s"}},
    }
    answer = told.client.post("/api/v1/sessions/S1/benchmarks", json=body)
    assert answer.status_code == 201, answer.text
    seen.page.wait_for_selector("tr.best:has-text('EAGLE-3, 3 steps')")
    assert "+7.1 %" in table.inner_text()
    assert seen.page.evaluate("window.notReloaded")
    assert seen.complaints == []
