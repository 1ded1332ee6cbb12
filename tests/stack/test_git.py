from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sitrepd.stack.git import GitTree, git_tree, git_trees


def git(folder: Path, *words: str) -> str:
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.com", *words],
        cwd=folder,
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    (folder / "python").mkdir(parents=True)
    git(folder, "init", "-q")
    (folder / "python" / "a.py").write_text("a = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_clean_tree_and_its_commit(repository: Path):
    commit = git(repository, "rev-parse", "HEAD")
    assert git_tree(repository / "python") == GitTree(str(repository), commit, False)


def test_a_changed_tracked_file_is_dirty_and_a_new_file_is_not(repository: Path):
    (repository / "new.log").write_text("x")
    assert git_trees([repository])[0].dirty is False
    (repository / "python" / "a.py").write_text("a = 2\n")
    assert git_trees([repository])[0].dirty is True


def test_each_tree_once(repository: Path, tmp_path: Path):
    assert [tree.path for tree in git_trees([repository, repository / "python", tmp_path])] == [str(repository)]


def test_a_tree_without_a_commit(tmp_path: Path):
    git(tmp_path, "init", "-q")
    assert git_tree(tmp_path) == GitTree(str(tmp_path), None, False)


def test_no_tree(tmp_path: Path):
    assert git_tree(tmp_path) is None
    assert git_tree(tmp_path / "missing") is None


def test_asking_runs_no_program_that_the_repository_names(repository: Path):
    hook = repository / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {repository}/was-run\n")
    hook.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(hook))
    assert git_tree(repository) is not None
    assert not (repository / "was-run").exists()


def test_asking_leaves_the_index_alone(repository: Path):
    os.utime(repository / "python" / "a.py", (1, 1))
    before = (repository / ".git" / "index").stat().st_mtime_ns
    assert git_trees([repository])[0].dirty is False
    assert (repository / ".git" / "index").stat().st_mtime_ns == before
