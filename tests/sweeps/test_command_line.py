"""Sweeps as they are typed: files, flags, and what is said of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from tests.cli.running import Sitrep
from tests.daemons import running_daemon
from tests.sweeps.playing import Play

from sitrepd.cli import sweep_file
from sitrepd.errors import InvalidFact


def test_a_file_in_yaml_is_the_same_as_in_toml(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'name = "s"\n[template]\nlaunch = "L1"\n[parameters]\nsteps = { from = 1, to = 3 }\n'
    )
    (tmp_path / "a.yaml").write_text("name: s\ntemplate: {launch: L1}\nparameters:\n  steps: {from: 1, to: 3}\n")
    assert sweep_file.read_file(str(tmp_path / "a.toml")) == sweep_file.read_file(str(tmp_path / "a.yaml"))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("a.toml", "name = ", "is no TOML"), ("a.yml", "a: [", "is no YAML"), ("a.yaml", "- 1", "holds no table"), ("b.toml", None, "cannot be read")],
)  # fmt: skip
def test_a_file_that_cannot_be_read_says_so(tmp_path: Path, name: str, text: str | None, said: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(InvalidFact, match=said):
        sweep_file.read_file(str(tmp_path / name))


def test_yaml_without_its_library_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "a.yaml").write_text("a: 1")
    with pytest.raises(InvalidFact, match=r"sitrepd\[yaml\]"):
        sweep_file.read_file(str(tmp_path / "a.yaml"))


def test_values_as_flags() -> None:
    told = sweep_file.parameters(
        ["steps=1..10", "mem=0.8..0.9/0.05", "NCCL_ALGO=Ring,Tree,absent", "topk=1,2", "x=true,7B"]
    )
    assert told == {
        "steps": {"from": 1, "to": 10}, "mem": {"from": 0.8, "to": 0.9, "step": 0.05},
        "NCCL_ALGO": ["Ring", "Tree", "absent"], "topk": [1, 2], "x": [True, "7B"],
    }  # fmt: skip
    assert sweep_file.pairs("--derive", ["d=steps + 1"], text=True) == {"d": "steps + 1"}
    with pytest.raises(typer.BadParameter, match="write NAME="):
        sweep_file.parameters(["steps"])


def test_infinity_is_no_value() -> None:
    with pytest.raises(InvalidFact, match=r"parameters\.a: inf is no value"):
        sweep_file.finite({"parameters": {"a": [1, float("inf")]}})


@pytest.mark.parametrize("value", ["2026-12-01", "12:30:00", "2026-12-01T12:30:00Z"])
def test_a_date_is_no_setting(tmp_path: Path, value: str) -> None:
    (tmp_path / "a.toml").write_text(f"[parameters]\na = [{value}]\n")
    with pytest.raises(InvalidFact, match=r"parameters\.a: .* write it in quotes"):
        sweep_file.finite(sweep_file.read_file(str(tmp_path / "a.toml")))


@pytest.mark.parametrize("text", ["benchmarks = 5", "benchmarks = [1]", 'benchmarks = "quick"'])
def test_benchmarks_are_tables(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(InvalidFact, match="are no tables"):
        sweep_file.read_file(str(tmp_path / "a.toml"))


@pytest.mark.parametrize("text", ["1..", "1..inf", "..5", "0.5..Infinity"])
def test_a_range_without_an_end_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="it has no end"):
        sweep_file.parameters([f"steps={text}"])


@pytest.fixture
def sitrep(tmp_path: Path) -> Iterator[Sitrep]:
    with running_daemon(tmp_path / "store", log_poll_s=0.05) as daemon:
        daemon.client.post("/api/v1/sessions", json={"name": "typed"}).raise_for_status()
        yield Sitrep(tmp_path / "store", tmp_path)


@pytest.mark.slow
def test_a_sweep_is_checked_run_and_watched(sitrep: Sitrep, tmp_path: Path) -> None:
    play = Play(tmp_path)
    path = str(play.toml(tmp_path / "sweep.toml"))
    plan = sitrep("sweep", "check", path, "--where", "steps is absent or steps < 2").ok().out
    assert "2 trials with 4 runs in all" in plan
    assert "--steps 1" in plan
    refused = sitrep("sweep", "check", path, "--vary", "steps=1..5/0").refused()
    assert "never ends" in refused
    assert sitrep("sweep", "list", "--json").json["count"] == 0
    done = sitrep("sweep", "run", path, "--repeat", "2").ok().out
    assert "W1 steps is done." in done
    assert "Best by output_throughput: steps 2 (94.15, +5.8 %, better" in done
    assert [start["steps"] for start in play.starts()] == [0, 1, 2]
    extended = sitrep("sweep", "extend", "W1", "--vary", "steps=2..3").ok().out
    assert "1 trial added" in extended
    assert sitrep("sweep", "watch", "W1").ok().out.count("steps 3: done") == 1
    clone = (
        sitrep("sweep", "check", "--launch", "L1", "--vary", "steps=4,5", "--tool", "command", "--bench", "true")
        .ok()
        .out
    )
    assert "--steps 4" in clone
    assert "Starts alone: about" in clone
