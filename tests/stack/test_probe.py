from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.stack.conftest import Environment, make_environment
from tests.stack.test_git import git

from sitrepd.stack.bounded import Ran
from sitrepd.stack.git import GitTree
from sitrepd.stack.probe import driver_version, parse_answer, probe_stack, reading_of

TORCH_VERSION = """
from typing import Optional
__all__ = ['__version__', 'debug', 'cuda', 'git_version', 'hip', 'xpu']
__version__ = '2.11.0+cu130'
debug = False
cuda: Optional[str] = '13.0'
git_version = '70d99e998b4955e0049d13a98d77ae1b14db1f45'
hip: Optional[str] = None
xpu: Optional[str] = None
"""
LAUNCH = ["-m", "sglang.launch_server"]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    venv = make_environment(tmp_path_factory.mktemp("probe") / "serving")
    venv.install("sglang", "0.5.16")
    venv.install("torch", "2.11.0")
    venv.install("sgl_kernel", "0.4.5")
    venv.install("nvidia-cudnn-cu13", "9.13.0.50")
    venv.install("NVIDIA_nccl.cu13", "2.28.9")
    venv.install("requests", "2.32.0")
    (venv.packages / "broken-1.0.dist-info").mkdir()
    venv.module("torch/__init__.py", "raise SystemExit('torch was imported')")
    venv.module("torch/version.py", TORCH_VERSION)
    return venv


def test_versions_without_importing_anything(serving: Environment, tmp_path):
    reading = probe_stack([serving.python, *LAUNCH], {}, tmp_path)
    assert reading.note is None
    assert reading.packages == {
        "nvidia-cudnn-cu13": "9.13.0.50",
        "nvidia-nccl-cu13": "2.28.9",
        "sgl-kernel": "0.4.5",
        "sglang": "0.5.16",
        "torch": "2.11.0",
    }
    assert (reading.cuda, reading.cudnn, reading.hip) == ("13.0", "9.13.0.50", None)
    assert reading.python == ".".join(map(str, sys.version_info[:3]))
    assert reading.executable == serving.python
    assert reading.git == ()
    assert reading.os


def test_stack_fields_are_those_of_the_session_file(serving: Environment, tmp_path):
    fields = probe_stack([serving.python, *LAUNCH], {}, tmp_path).stack_fields()
    assert list(fields) == ["packages", "driver", "cuda", "python", "os", "git", "diffs"]
    assert json.loads(json.dumps(fields)) == fields


def test_files_beside_the_launch_do_not_stand_in_for_the_library(serving: Environment, tmp_path):
    added = tmp_path / "added"
    added.mkdir()
    for folder, name in ((tmp_path, "json"), (tmp_path, "re"), (added, "json"), (added, "importlib")):
        (folder / f"{name}.py").write_text("raise SystemExit('the wrong module')")
    reading = probe_stack([serving.python, *LAUNCH], {"PYTHONPATH": str(added)}, tmp_path)
    assert (reading.note, reading.packages["sglang"]) == (None, "0.5.16")


def test_what_is_printed_at_the_start_does_no_harm(serving: Environment, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("print('sitrep-stack:{welcome')")
    env = {"PYTHONPATH": str(tmp_path), "PYTHONINSPECT": "1"}
    assert probe_stack([serving.python, *LAUNCH], env, tmp_path).packages["sglang"] == "0.5.16"


@pytest.fixture
def source_tree(tmp_path: Path) -> Path:
    tree = tmp_path / "sglang source"
    package = tree / "python" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('sglang was imported')")
    (package / "version.py").write_text('__version__ = version = "0.5.24.dev1"\n')
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "first")
    return tree


def test_a_source_tree_on_the_path_of_the_launch_counts(source_tree: Path, tmp_path):
    venv = make_environment(tmp_path / "bare")
    commit = git(source_tree, "rev-parse", "HEAD")
    (source_tree / "python" / "sglang" / "version.py").write_text('__version__ = "0.5.24.dev2"\n')
    by_path = probe_stack([venv.python, *LAUNCH], {"PYTHONPATH": str(source_tree / "python")}, tmp_path)
    by_folder = probe_stack([venv.python, *LAUNCH], {}, source_tree / "python")
    for reading in (by_path, by_folder):
        assert reading.packages == {"sglang": "0.5.24.dev2"}
        assert reading.git == (GitTree(str(source_tree), commit, True),)
    assert probe_stack([venv.python, "-I", *LAUNCH], {}, source_tree / "python").packages == {}


def test_an_editable_install_names_its_tree(source_tree: Path, tmp_path):
    venv = make_environment(tmp_path / "bare")
    told = {"url": (source_tree / "python").as_uri(), "dir_info": {"editable": True}}
    venv.install("sglang", "0.5.24", direct_url__json=json.dumps(told))
    reading = probe_stack([venv.python, *LAUNCH], {}, tmp_path)
    assert reading.packages == {"sglang": "0.5.24"}
    assert [(tree.path, tree.dirty) for tree in reading.git] == [(str(source_tree), False)]


def test_an_install_from_a_repository_names_its_commit_without_the_login(tmp_path):
    venv = make_environment(tmp_path / "bare")
    told = {"url": "https://me:secret@example.com/vllm.git", "vcs_info": {"vcs": "git", "commit_id": "a" * 40}}
    venv.install("vllm", "0.9.0", direct_url__json=json.dumps(told))
    venv.install("triton", "3.5.0", direct_url__json="{cut")
    reading = probe_stack([venv.python, *LAUNCH], {}, tmp_path)
    assert reading.git == (GitTree("https://example.com/vllm.git", "a" * 40, None),)
    assert reading.packages == {"vllm": "0.9.0", "triton": "3.5.0"}


def test_a_missing_interpreter_is_said_and_the_rest_is_told(source_tree: Path):
    reading = probe_stack(["/opt/gone/bin/python", *LAUNCH], {}, source_tree)
    assert reading.note == "the packages are not known: /opt/gone/bin/python was not found"
    assert reading.packages == {}
    assert len(reading.git) == 1


def test_an_interpreter_that_hangs_is_left(tmp_path):
    hanging = tmp_path / "python"
    hanging.write_text("#!/bin/sh\nsleep 60\n")
    hanging.chmod(0o755)
    note = probe_stack([str(hanging), *LAUNCH], {"PATH": "/usr/bin:/bin"}, tmp_path, timeout_s=0.3).note
    assert note == f"the packages are not known: {hanging} did not finish within 0.3 s"


@pytest.mark.parametrize("output", ["", "hello\n", "sitrep-stack:{cut"])
def test_an_answer_that_is_none(output: str):
    assert parse_answer(Ran(output), "/x/python") == ({}, "the packages are not known: /x/python gave no answer")


def test_renamed_distributions_are_not_told_twice(tmp_path):
    answer = {"packages": {"sglang-kernel": "0.4.5"}, "versions": {"sgl_kernel": "0.4.5"}, "folders": {}}
    assert reading_of(answer, cwd=tmp_path).packages == {"sglang-kernel": "0.4.5"}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n", "535.183.01"),
        (
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@box)  Tue\n"
            "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n",
            "580.95.05",
        ),
        ("something else\n", None),
        (None, None),
    ],
)
def test_the_driver_as_the_kernel_module_says(tmp_path, text: str | None, version: str | None):
    file = tmp_path / "proc/driver/nvidia/version"
    if text is not None:
        file.parent.mkdir(parents=True)
        file.write_text(text)
    assert driver_version(tmp_path) == version


def test_our_own_interpreter(tmp_path):
    reading = probe_stack(["python", *LAUNCH], {"PATH": str(Path(sys.executable).parent)}, tmp_path)
    assert reading.executable == sys.executable
    told = subprocess.run(
        [sys.executable, "-c", "from importlib.metadata import version; print(version('nvidia-ml-py'))"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert reading.packages["nvidia-ml-py"] == told.stdout.strip()
