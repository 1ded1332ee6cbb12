"""Two profiles side by side."""

from __future__ import annotations

import pytest
from tests.cli.running import Sitrep

from sitrepd.cli.profiles import differences


def test_any_two_of_calls_total_and_mean_give_the_third() -> None:
    before = {
        "phases": [{"name": "draft", "calls": 100, "mean_ms": 2.0}, {"name": "verify", "calls": 100, "total_ms": 600}]
    }
    after = {"phases": [{"name": "verify", "calls": 50, "total_ms": 270}, {"name": "extend", "mean_ms": 1.0}]}
    draft, verify, extend = differences(before, after)
    assert (draft["share"], draft["difference_percent"]) == ([25.0, None], None)
    assert (verify["share"], verify["calls"], verify["mean_ms"]) == ([75.0, 100.0], [100, 50], [6.0, 5.4])
    assert verify["difference_percent"] == pytest.approx(-10.0)
    assert (extend["share"], extend["mean_ms"]) == ([None, None], [None, 1.0])


def test_it_is_printed_and_given_as_json(sitrep: Sitrep) -> None:
    sitrep("init", "s").ok()
    for mean in ("20.5", "18.45"):
        sitrep("profile", "add", "--phase", f"verify:calls=400,mean_ms={mean}").ok()
    lines = sitrep("profile", "diff", "P1", "P2").ok().out.splitlines()
    assert lines[1].split() == ["verify", "100.0", "%", "100.0", "%", "400", "400", "20.5", "18.45", "-10.0", "%"]
    told = sitrep("profile", "diff", "P1", "P2", "--json").json
    assert told["phases"][0]["calls"] == [400, 400]
    assert "P9" in sitrep("profile", "diff", "P1", "P9").refused()
