"""From settings to the command of a trial."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sitrepd.errors import InvalidFact
from sitrepd.launches.models import LaunchCreate
from sitrepd.sweeps.template import MissingSecret, filled, kept, trial_body

PY = sys.executable


def body(command: str | None = None, **more: object) -> LaunchCreate:
    told = {"cwd": "/tmp", "inherit_env": False, "env": {"PATH": "/usr/bin:/bin"}, "told_env": []}
    return LaunchCreate.model_validate(told | ({"command": command} if command else {}) | more)


def test_flags_are_set_changed_and_left_out_of_words() -> None:
    base = body(argv=[PY, "-m", "x", "--steps", "5", "--algo=E", "--keep"])
    found = trial_body(base, {"steps": 2, "algo": None, "bs": [1, 2], "bare": True, "gone": None}, "W1-1")
    assert sorted(found.argv or []) == sorted([PY, "-m", "x", "--steps", "2", "--keep", "--bs", "1", "2", "--bare"])


def test_a_shell_line_keeps_its_quoting_and_gets_a_log_of_its_own(tmp_path: Path) -> None:
    line = f"A=1 nohup {PY} -m x --name 'a b' --steps 5 > {tmp_path}/s.log 2>&1 &"
    found = trial_body(body(line), {"steps": None, "NCCL_ALGO": "Ring", "A": 2}, "W2-3")
    assert found.command == f"NCCL_ALGO=Ring A=2 nohup {PY} -m x --name 'a b' > {tmp_path}/s.W2-3.log 2>&1 &"


def test_placeholders_are_quoted_for_the_shell() -> None:
    found = trial_body(body(f"{PY} -m x --name {{who}} --json '{{\"k\": 1}}'"), {"who": "a b"}, "W1-1")
    assert found.command == f"{PY} -m x --name 'a b' --json '{{\"k\": 1}}'"
    with pytest.raises(InvalidFact, match=r"absent in a trial, but the command has \{who\}"):
        trial_body(body(f"{PY} {{who}}"), {"who": None}, "W1-1")


def test_a_variable_that_the_line_sets_cannot_be_left_out() -> None:
    with pytest.raises(InvalidFact, match="the command sets it"):
        trial_body(body(f"NCCL_ALGO=Ring {PY} -m x"), {"NCCL_ALGO": None}, "W1-1")
    told = body(f"{PY} -m x", env={"NCCL_ALGO": "Ring", "PATH": "/bin"}, told_env=["NCCL_ALGO"])
    found = trial_body(told, {"NCCL_ALGO": None}, "W1-1")
    assert (found.env, found.told_env) == ({"PATH": "/bin"}, [])


def test_no_secret_is_kept_and_one_that_is_missing_is_named() -> None:
    told = body(
        argv=[PY, "--api-key", "sk-abcdefghijklmnop"],
        env={"HF_TOKEN": "hf_abcdefghijklmnopqrst"},
        told_env=["HF_TOKEN"],
    )
    stored = kept(told)
    assert "abcdefghijklmnop" not in str(stored)
    with pytest.raises(MissingSecret, match="HF_TOKEN"):
        filled(stored, {"API_KEY": "k"})
    (reference,) = stored["secrets"]
    again = filled(stored, {"HF_TOKEN": "hf_other", reference: "sk-other"})
    assert (again.argv, (again.env or {})["HF_TOKEN"]) == ([PY, "--api-key", "sk-other"], "hf_other")
