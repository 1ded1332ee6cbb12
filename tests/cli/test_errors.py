"""What is said when something is refused, and how a call then ends."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.running import Sitrep
from tests.helpers import PATIENCE_S, free_port


def test_a_refusal_names_the_field_and_what_would_be_right(shared: Sitrep) -> None:
    said = shared("finding", "add", "rejected", "x", "--supersedes", "F999").refused()
    assert said == "Error: supersedes: there is no fact 'F999'.\n  supersedes: unknown id\n"
    assert "There is no launch 'L999'. Ids of launches look like L1" in shared("launch", "show", "L999").refused()
    assert "'nonsense' is no id" in shared("show", "nonsense").refused()
    assert "kind: field required" in shared("finding", "add").refused()


def test_with_json_the_problem_is_an_object_on_standard_error(shared: Sitrep) -> None:
    done = shared("--json", "finding", "add", "rejected", "x", "--supersedes", "F999")
    problem = json.loads(done.refused())
    assert (problem["status"], problem["errors"][0]["field"]) == (422, "supersedes")
    assert done.out == ""


def test_without_a_daemon_the_status_is_3(sitrep: Sitrep) -> None:
    said = sitrep("session", "list", "--no-start").refused(3)
    assert f"No daemon runs at the socket {sitrep.store}/sitrep.sock" in said
    assert "sitrep serve" in said
    assert sitrep("session", "list", env={"SITREP_NO_START": "1"}).refused(3) == said
    problem = json.loads(sitrep("session", "list", "--no-start", "--json").refused(3))
    assert problem["title"] == "The daemon cannot be reached"
    assert not sitrep.store.exists()
    assert "No daemon runs" in sitrep("status").refused(3)


def test_a_url_without_a_daemon_is_named(sitrep: Sitrep) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    said = sitrep("session", "list", env={"SITREP_URL": url}).refused(3)
    assert f"Nobody listens at {url}" in said
    assert not sitrep.store.exists()


@pytest.mark.slow
def test_by_url_the_token_is_sent(shared: Sitrep, tmp_path: Path) -> None:
    url = json.loads((shared.store / "daemon.json").read_text())["url"]
    assert shared("session", "--json", env={"SITREP_URL": url}).json["data"][-1]["name"] == "shared work"
    assert "token is wrong" in shared("session", env={"SITREP_URL": url, "SITREP_TOKEN": "x" * 40}).refused()
    elsewhere = Sitrep(tmp_path / "none", tmp_path)
    assert "token is wanted" in elsewhere("session", env={"SITREP_URL": url}).refused()
    token = (shared.store / "token").read_text().strip()
    assert (
        elsewhere("session", "--json", env={"SITREP_URL": url, "SITREP_TOKEN": token}).json["data"][-1]["name"]
        == "shared work"
    )
    unix = f"unix://{shared.store}/sitrep.sock"
    assert elsewhere("session", "--json", env={"SITREP_URL": unix}).json["data"][-1]["name"] == "shared work"
    assert elsewhere("open", env={"SITREP_URL": url, "SITREP_TOKEN": token}).ok().out.startswith(f"{url}/open/")


def test_a_store_named_on_the_command_line_goes_before_the_url(shared: Sitrep, tmp_path: Path) -> None:
    elsewhere = Sitrep(tmp_path / "none", tmp_path)
    done = elsewhere("session", "--json", "--data-dir", str(shared.store), env={"SITREP_URL": "http://127.0.0.1:1"})
    assert done.json["data"][-1]["name"] == "shared work"


def test_a_reader_that_goes_away_is_no_error(shared: Sitrep) -> None:
    for number in range(3):
        shared("directive", "add", f"{'x' * 19_000} {number}").ok()
    read, write = os.pipe()
    os.close(read)
    process = shared.start("directive", "list", "--json", stdout=write)
    os.close(write)
    _, err = process.communicate(timeout=PATIENCE_S)
    assert err == ""


@pytest.mark.parametrize("folder", ["München 日本", "with\nnewline"])
def test_any_folder_can_be_worked_in(shared: Sitrep, tmp_path: Path, folder: str) -> None:
    cwd = tmp_path / folder
    cwd.mkdir()
    assert shared("session", "show", "--json", cwd=cwd).json["name"] == "shared work"


def test_a_folder_that_is_gone(shared: Sitrep, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone} && rmdir {gone} && exec {' '.join(shared.command('session', 'show', '--json'))}"
    done = subprocess.run(
        ["sh", "-c", command],
        env=shared.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        cwd=tmp_path,
    )
    assert json.loads(done.stdout)["name"] == "shared work", done.stderr
