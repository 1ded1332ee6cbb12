"""Two profiles side by side."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.running import Sitrep

from sitrepd.cli.profiles import differences
from sitrepd.cli.timings import phases_of


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


def test_times_of_a_log() -> None:
    log = "took=9 ms\n[EAGLE3_PROFILE] draft=1.5 ms verify: 20 ms\n[TP0] profile draft=500us n=3 verify=0.01s\r\n"
    assert phases_of(log) == [
        {"name": "draft", "calls": 2, "total_ms": 2.0, "mean_ms": 1.0},
        {"name": "verify", "calls": 2, "total_ms": 30.0, "mean_ms": 15.0},
    ]
    assert phases_of("x took 3 h, y took 4", r"(?P<name>\w) took (?P<value>\d+)(?: (?P<unit>\w))?") == [
        {"name": "y", "calls": 1, "total_ms": 4.0, "mean_ms": 4.0}
    ]


def test_a_log_becomes_a_profile(sitrep: Sitrep, tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("[EAGLE3_PROFILE] draft=1.5 ms verify=20 ms\n" * 400)
    sitrep("init", "s").ok()
    assert sitrep("profile", "read", str(log)).ok().out == "P1 stored: 2 phases.\n"
    told = sitrep("profile", "show", "P1", "--json").json
    assert told["phases"][1] == {"name": "verify", "calls": 400, "total_ms": 8000.0, "mean_ms": 20.0}
    log.write_text("nothing")
    for words in (("read", str(log)), ("read", str(log), "--pattern", "("), ("read", str(log), "--pattern", "x")):
        assert sitrep("profile", *words).code != 0
    assert len(sitrep("profile", "list", "--json").json["data"]) == 1
