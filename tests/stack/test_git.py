from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from sitrepd.stack.git import GitTree, git_tree, git_trees, tree_diff


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


def test_what_a_tree_has_beyond_its_commit(repository: Path):
    clean = git_tree(repository)
    assert clean is not None
    assert tree_diff(clean) is None
    (repository / "python" / "a.py").write_text("a = 2\n")
    (repository / "python" / "new.py").write_text("b = 1\n")
    (repository / "notes.txt").write_text("not code\n")
    dirty = git_tree(repository)
    assert dirty is not None
    found = tree_diff(dirty)
    assert found is not None
    plain = git(repository, "diff", "HEAD") + "\n"
    assert found.text == plain
    assert found.sha256 == hashlib.sha256(plain.encode()).hexdigest()
    assert "python/a.py | 2 +-" in found.summary
    assert (found.untracked, found.truncated) == (("python/new.py",), False)


def test_a_large_difference_is_kept_in_part_with_the_digest_of_all_of_it(repository: Path):
    (repository / "python" / "a.py").write_text("".join(f"line {number} ü\n" for number in range(20000)))
    tree = git_tree(repository)
    assert tree is not None
    found = tree_diff(tree)
    assert found is not None
    assert found.text is not None
    assert found.truncated
    assert len(found.text.encode()) <= 64 << 10
    assert found.text.endswith("ü\n")
    assert found.sha256 == hashlib.sha256(f"{git(repository, 'diff', 'HEAD')}\n".encode()).hexdigest()


def test_a_diff_runs_no_program_that_the_repository_names(repository: Path, tmp_path: Path):
    marker = tmp_path / "ran"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\ntouch {marker}\n")
    script.chmod(0o755)
    git(repository, "config", "diff.external", str(script))
    git(repository, "config", "diff.evil.textconv", str(script))
    (repository / ".gitattributes").write_text("*.py diff=evil\n")
    (repository / "python" / "a.py").write_text("a = 3\n")
    tree = git_tree(repository)
    assert tree is not None
    found = tree_diff(tree)
    assert found is not None
    assert "+a = 3" in (found.text or "")
    assert not marker.exists()
