"""Which session is meant, and the folders that are tied to one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.cli.running import Sitrep
from tests.daemons import running_daemon

pytestmark = pytest.mark.slow  # each test starts many processes


@pytest.fixture
def served(tmp_path: Path) -> Sitrep:
    with running_daemon(tmp_path / "store"):
        yield Sitrep(tmp_path / "store", tmp_path)


def _git(cwd: Path, *words: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *who, *words], cwd=cwd, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "repository"
    (top / "sub").mkdir(parents=True)
    _git(top, "init")
    _git(top, "commit", "--allow-empty", "-m", "first")
    _git(top, "worktree", "add", str(tmp_path / "tree"))
    return top


def meant(sitrep: Sitrep, *words: str, cwd: Path | None = None, **env: str) -> str:
    return str(sitrep("session", "show", "--json", *words, cwd=cwd, env=env).json["id"])


def test_the_order(served: Sitrep, repository: Path, tmp_path: Path) -> None:
    assert "No session is open" in served("session", "show").refused()
    served("session", "open", "one").ok()
    assert meant(served) == "S1", "the only open one"
    served("session", "open", "zwei – 二").ok()
    said = served("finding", "list").refused()
    assert "2 sessions are open: S1 (one), S2 (zwei – 二)" in said
    assert "  S1  one" in said.splitlines()
    assert (
        served("init", "--session", "S2", cwd=repository).ok().out == f"{repository}/.git is tied to S2 (zwei – 二).\n"
    )
    for folder in (repository, repository / "sub", tmp_path / "tree"):
        assert meant(served, cwd=folder) == "S2", "the folder's repository, whichever work tree"
    assert meant(served, cwd=repository, SITREP_SESSION="S1") == "S1", "the environment goes first"
    assert meant(served, "--session", "zwei – 二", SITREP_SESSION="S1") == "S2", "the option before that"
    assert "no session has that id or name" in served("finding", "--session", "S9").refused()


def test_init_opens_a_session_where_none_is(served: Sitrep, repository: Path) -> None:
    done = served("init", cwd=repository / "sub").ok()
    assert done.err == "Opened S1: repository\n"
    assert meant(served, cwd=repository) == "S1"
    assert served("init", cwd=repository).ok().err == "", "twice is once"
    assert served("session", "--json").json["count"] == 1


def test_init_with_a_name_opens_one_once(served: Sitrep, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    served("session", "open", "other").ok()
    served("init", "tuning", "--goal", "faster", cwd=folder).ok()
    served("init", "tuning", cwd=folder).ok()
    assert served("session", "list", "--json").json["count"] == 2
    assert served("session", "show", "--json", cwd=folder).json["goal"] == "faster"


def test_a_folder_is_tied_anew_only_when_told(served: Sitrep, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    served("init", "first", cwd=folder).ok()
    assert "is tied to S1 (first)" in served("init", "second", cwd=folder).refused()
    assert served("session", "--json").json["count"] == 1, "no session is left behind"
    served("init", "second", "--move", cwd=folder).ok()
    assert meant(served, cwd=folder) == "S2"
    served("session", "close", "second").ok()
    assert meant(served, cwd=folder) == "S1", "a tie to a closed session means nothing any more"
    served("init", "third", cwd=folder).ok()
    assert meant(served, cwd=folder) == "S3"


def test_the_file_is_kept(served: Sitrep, repository: Path, tmp_path: Path) -> None:
    from tests.helpers import wait_until

    served("init", "tuning", "--file", cwd=repository / "sub").ok()
    served("directive", "add", "No hacks.", cwd=repository).ok()
    printed = served("checkpoint", cwd=repository).ok().out
    wait_until(lambda: (repository / "SITREP.md").exists())
    assert (repository / "SITREP.md").read_text() == printed
    (tmp_path / "mine.md").write_text("# My own notes\n")
    assert "was not written by Sitrep" in served("init", "--file", "../mine.md", cwd=repository).refused()
    assert (tmp_path / "mine.md").read_text() == "# My own notes\n"


def test_sessions_are_edited_closed_and_opened_again(served: Sitrep) -> None:
    served("session", "open", "one", "--best-metric", "total_throughput").ok()
    assert served("session", "edit", "--goal", "faster", "--json").json["goal"] == "faster"
    assert served("session", "close").ok().out == "S1 closed: one\n"
    assert "closed" in served("sessions").ok().out
    assert "No session is open" in served("finding").refused()
    assert "ended_at" not in served("session", "reopen", "S1", "--json").json
    assert "say what to change" in served("session", "edit").refused(2)
