from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.backfill.projects import EAGLE, log, result, write
from tests.cli.running import Sitrep
from tests.daemons import Daemon, running_daemon

pytestmark = pytest.mark.slow  # each test starts daemons of its own


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sitrep, Daemon]]:
    folder = tmp_path_factory.mktemp("served")
    with running_daemon(folder / "store") as daemon:
        sitrep = Sitrep(folder / "store", folder)
        sitrep("session", "open", "old work").ok()
        yield sitrep, daemon


def test_a_dry_run_needs_no_daemon_and_stores_nothing(tmp_path: Path) -> None:
    write(tmp_path / "p" / "s.log", log(EAGLE))
    write(tmp_path / "p" / "odd.log", "hello\n")
    sitrep = Sitrep(tmp_path / "store", tmp_path)
    done = sitrep("backfill", "--dry-run", "p").ok()
    assert "p/s, was ready" not in done.out
    assert "1 launch\n  s  exited, was ready after 53 s" in done.out
    assert "odd.log: text without a line of a server" in done.out
    assert "Nothing was stored" in done.out
    assert not (tmp_path / "store").exists()


def test_the_report_names_ids_and_says_once_what_it_said_twice(served: tuple[Sitrep, Daemon], tmp_path: Path) -> None:
    sitrep, _ = served
    write(tmp_path / "s.log", log(EAGLE))
    write(tmp_path / "r.jsonl", result("sglang-0.5.16-eagle3-3-steps"))
    first = sitrep("backfill", str(tmp_path), "--json").json
    assert (first["session"], first["files"]) == ("S1", 2)
    (launch,), (run,) = first["launches"], first["benchmarks"]
    assert (launch["outcome"], launch["command"]) == ("new", "not recorded")
    assert run["launch"] == launch["id"]
    again = sitrep("backfill", str(tmp_path)).ok().out
    assert f"1 launch in S1: 1 known before\n  {launch['id']}" in again
    assert "The command is certain of 0 of 1 launches" in again


def test_another_machine_tells_a_daemon_over_tcp(served: tuple[Sitrep, Daemon], tmp_path: Path) -> None:
    sitrep, daemon = served
    write(tmp_path / "p" / "t.log", log(EAGLE).replace("253890220", "77"))
    token = (daemon.data_dir / "token").read_text().strip()
    elsewhere = Sitrep(tmp_path / "none", tmp_path)
    env = {"SITREP_URL": daemon.url, "SITREP_TOKEN": token}
    told = elsewhere("backfill", "p", "--host", "gpu-box", "--json", env=env).json
    launch = sitrep("show", told["launches"][0]["id"], "--json").json
    host = sitrep("show", launch["host"], "--json").json
    assert host["name"] == "gpu-box"
    assert launch["log_path"] == str(tmp_path / "p" / "t.log")
    assert not (tmp_path / "none" / "sitrep.db").exists()


def test_mistakes_are_told_before_anything_is_read(served: tuple[Sitrep, Daemon], tmp_path: Path) -> None:
    sitrep, _ = served
    assert "nowhere does not exist" in sitrep("backfill", "nowhere").refused(2)
    assert "no time zone" in sitrep("backfill", str(tmp_path), "--timezone", "Mars/Base").refused(2)
    error = sitrep("backfill", str(tmp_path), "--session", "S99", "--json").refused()
    assert "S99" in json.loads(error)["detail"]
