"""The options of a real SGLang, where SITREP_TEST_SGLANG_PYTHON names an interpreter that has one."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.launches.check.subjects import server

from sitrepd.hardware.live import LiveHardware
from sitrepd.launches.check.flags import compared
from sitrepd.launches.check.installed import Installed, installed_sglang
from sitrepd.launches.check.subject import subject_of
from sitrepd.launches.models import LaunchCreate

# Read when the tests are collected: the tests themselves see no SITREP_*.
PYTHON = os.environ.get("SITREP_TEST_SGLANG_PYTHON")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="needs a real SGLang: SITREP_TEST_SGLANG_PYTHON=/path/to/python"),
]


def ask(folder: Path) -> tuple[Installed, float]:
    assert PYTHON is not None
    body = LaunchCreate(argv=server(python=PYTHON), env={}, cwd=str(folder))
    began = time.monotonic()
    return installed_sglang(subject_of(body, LiveHardware()), folder / "flags", 120), time.monotonic() - began


def test_its_parser_is_read_without_torch_and_then_kept(tmp_path: Path) -> None:
    first, first_s = ask(tmp_path)
    assert first.reason is None
    assert len(first.options or ()) > 300
    [kept] = (tmp_path / "flags").glob("*.json")
    assert json.loads(kept.read_text())["how"] == "without torch"
    again, again_s = ask(tmp_path)
    assert again.cached
    assert again_s < first_s
    assert again_s < 2


def test_what_it_refuses_is_known_before(tmp_path: Path) -> None:
    options = ask(tmp_path)[0].options or []
    good = ("--model-path", "/m", "--tp-size", "8", "--speculative-algorithm", "EAGLE3", "--mem-fraction-static", "0.9")
    assert list(compared(good, options, "SGLang")) == []
    for bad in (("--max-model-len", "3"), ("--speculative-draft", "x"), ("--attention-backend", "none-such")):
        assert [one.level for one in compared((*good, *bad), options, "SGLang")] == ["error"]
