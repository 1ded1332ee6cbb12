"""The store as a whole: session files, events, status, links, GPUs."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

import pytest
from tests.cli.running import Sitrep
from tests.daemons import running_daemon

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests/data/reference-session.jsonl"


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Sitrep:
    """A store that knows the reference session alone."""
    folder = tmp_path_factory.mktemp("told")
    with running_daemon(folder / "store"):
        sitrep = Sitrep(folder / "store", folder)
        told = sitrep("import", str(REFERENCE)).ok().out
        assert told.startswith("Imported into S1: 1 session, ")
        assert "1 host, 1 model, 3 directives, 2 findings" in told
        assert "2 next steps" in told
        yield sitrep


@pytest.mark.slow
def test_a_session_goes_in_and_comes_out(told: Sitrep, tmp_path: Path) -> None:
    text = told("export").ok().out
    lines = [json.loads(line) for line in text.splitlines()]
    original = [json.loads(line) for line in REFERENCE.read_text().splitlines()]
    assert sorted(line["type"] for line in lines) == sorted(line["type"] for line in original)
    assert '"value": 94.0' in text
    assert told("export", "--json").json == lines
    told("export", "-o", str(tmp_path / "s.jsonl")).ok()
    assert (tmp_path / "s.jsonl").read_text() == text
    assert "was imported already, as S1" in told("import", str(REFERENCE)).refused()
    twice = told("import", "-", "--again", "--json", stdin=text).json
    assert twice["counts"]["benchmark"] == 4
    told("session", "close", twice["session"]).ok()


def test_a_bad_line_is_named(told: Sitrep) -> None:
    bad = '{"type":"directive","text":"x"}\n{"type":"directive","txt":"y"}\n'
    said = told("import", "-", stdin=bad).refused()
    assert "stdin, line 2: directive:" in said
    assert "Nothing was imported" in said
    assert "cannot be read" in told("import", "/no/such/file").refused(2)


def test_status_is_ten_lines(told: Sitrep) -> None:
    lines = told("status").ok().out.splitlines()
    assert len(lines) <= 10
    assert "Session:     S1 EAGLE-3 for Kimi-K2.5 INT4" in lines
    assert "Known:       1 launch, 4 benchmarks, 2 findings" in lines
    assert next(line for line in lines if line.startswith("Next:")).startswith("Next:        N1 When the 3-step")
    found = told("status", "--json").json
    assert (found["session"]["id"], found["alive"], found["daemon"]["data_dir"]) == ("S1", [], str(told.store))


def test_the_comparison(told: Sitrep) -> None:
    rows = told("compare").ok().out.splitlines()
    assert re.fullmatch(r"B3 +EAGLE-3, 2 steps +94\.0 tok/s +\+5\.9 % +best, one run +one run only: not known", rows[3])
    assert told("compare", "--json").json["rows"][2]["difference"] == "+5.9 %"
    assert "No run has the metric 'no_such'" in told("compare", "--metric", "no_such").refused()


def test_events(told: Sitrep) -> None:
    told("directive", "add", "Be quick.").ok()
    assert len(told("events", "--limit", "1", "--json").json) == 1
    latest = [event for event in told("events", "--json").json if event["kind"] == "directive.created"][-1]
    assert latest["subject"] in told("events", "--after", str(latest["id"] - 1)).ok().out.split()
    follow = told.start("events", "--follow", "--limit", "1", "--json")
    assert follow.stdout is not None
    follow.stdout.readline()
    told("directive", "add", "Be quicker.").ok()
    kinds = (event["kind"] for line in follow.stdout for event in json.loads(line))
    assert "directive.created" in kinds


def test_a_link_opens_the_dashboard_once(told: Sitrep) -> None:
    done = told("open").ok()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(), urllib.request.ProxyHandler({}))
    with opener.open(done.out.strip()) as page:
        assert page.status == 200
    with pytest.raises(urllib.error.HTTPError, match="410"):
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(done.out.strip())
    assert told("open", "--json").json["url"].startswith("http://127.0.0.1:")


def test_gpus(told: Sitrep) -> None:
    found = told("gpu", "--json").json
    shown = told("gpu").ok().out
    assert (found["gpus"] and "GPU" in shown) or found["reason"] in shown


def test_version(told: Sitrep) -> None:
    assert told("version", "--json").json == {"version": told("version").ok().out.split()[1]}
