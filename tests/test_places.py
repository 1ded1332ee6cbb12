"""The command line and the daemon find the same store."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitrepd.errors import SitrepError
from sitrepd.places import data_dir
from sitrepd.settings import load_settings


@pytest.mark.parametrize(
    ("env", "toml"),
    [
        (None, None),
        ("~/store", None),
        ("relative/store", 'data_dir = "/not/this"'),
        (None, 'data_dir = "~/configured"'),
        ("", 'data_dir = "/configured"'),
        ("", None),
    ],
)
def test_both_find_the_same_store(
    env: str | None, toml: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if env is not None:
        monkeypatch.setenv("SITREP_DATA_DIR", env)
    if toml is not None:
        (tmp_path / "config.toml").write_text(toml)
        monkeypatch.setenv("SITREP_CONFIG", str(tmp_path / "config.toml"))
    assert data_dir() == load_settings().data_dir
    assert data_dir().is_absolute()
    assert data_dir("/told") == load_settings(data_dir="/told").data_dir == Path("/told")


def test_a_settings_file_that_is_wrong_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SITREP_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text("data_dir = 3")
    with pytest.raises(SitrepError, match=r"config\.toml is no path: 3"):
        data_dir()
    (tmp_path / "config.toml").write_bytes(b"\xff")
    with pytest.raises(SitrepError, match="cannot be read"):
        data_dir()


@pytest.mark.parametrize(
    ("told", "characters"), [("9000", 9000), ("2000t", 8000), ("brief", 2000), ("Standard", 9000), (4000, 4000)]
)
def test_a_budget_is_told_as_on_the_command_line(
    told: str | int, characters: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SITREP_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text(f"checkpoint_budget = {told!r}")
    assert load_settings().checkpoint_budget == characters
    monkeypatch.setenv("SITREP_CHECKPOINT_BUDGET", str(told))
    assert load_settings().checkpoint_budget == characters


@pytest.mark.parametrize(
    ("told", "said"), [("10t", "at least 1000"), ("5", "1000"), ("full", "a number"), ("much", r"tokens \(2000t\)")]
)
def test_a_budget_that_is_none_is_named(told: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITREP_CHECKPOINT_BUDGET", told)
    with pytest.raises(SitrepError, match=f"SITREP_CHECKPOINT_BUDGET.*{said}"):
        load_settings()
