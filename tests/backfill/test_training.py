from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.backfill.projects import read, reasons, utc, write

from sitrepd.backfill.training import MOST_POINTS


def points_of(folder: Path) -> list[dict[str, Any]]:
    (run,) = read(folder).runs
    points: list[dict[str, Any]] = run.fact["points"]
    return points


def value(point: dict[str, Any], name: str) -> str:
    return str(point["metrics"][name]["value"])


def test_the_log_of_a_hugging_face_trainer(tmp_path: Path) -> None:
    write(
        tmp_path / "sft.log",
        "".join(
            f"\r{i}%|###   | {i}/9 [00:01<00:10, 1.2it/s]{{'loss': {2.5 - i / 4}0, 'learning_rate': 2e-05, 'epoch': {i / 2}}}\n"
            for i in range(1, 4)
        )
        + "{'eval_loss': 1.25, 'eval_runtime': 2.0, 'epoch': 1.5}\n{'train_runtime': 12.0, 'train_loss': 1.0, 'epoch': 2.0}\n",
    )
    points = points_of(tmp_path)
    assert [str(point["epoch"]) for point in points] == ["0.5", "1.0", "1.5", "2.0"]
    assert value(points[0], "loss") == "2.250"
    assert value(points[0], "learning_rate") == "2e-05" or Decimal(value(points[0], "learning_rate")) == Decimal(
        "2e-05"
    )
    assert value(points[2], "eval_loss") == "1.25"


def test_lines_of_names_and_values_with_their_times(tmp_path: Path) -> None:
    write(
        tmp_path / "runs" / "eagle3" / "train.log",
        "".join(
            f"2026-11-02 10:00:{i:02d} INFO epoch={i // 5} step={i} loss={1.5 - i / 40:.3f} acc_0={i / 50:.2f}\n"
            for i in range(20)
        ),
    )
    (run,) = read(tmp_path).runs
    assert run.fact["name"] == "eagle3/train"
    assert (run.fact["at"], run.fact["observed_at"]) == (utc("2026-11-02 10:00:00"), utc("2026-11-02 10:00:19"))
    assert run.fact["points"][7] == {
        "epoch": Decimal(1),
        "step": 7,
        "metrics": {
            "loss": {"value": Decimal("1.325"), "better": "lower"},
            "acc_0": {"value": Decimal("0.14"), "better": "higher"},
        },
    }


@pytest.mark.parametrize(
    "line",
    [
        "Epoch {e}: 100%|####| 10/10 [00:09<00:00,  1.30it/s, loss=0.{e}5, v_num=0]",
        "Epoch [{e}/5] Loss: 0.{e}5",
        "epoch {e} | step {e}0 | train loss 0.9 | loss: 0.{e}5",
        "Train Epoch: {e} [0/100 (0%)]\tLoss: 0.{e}5",
        "iteration {e} loss=0.{e}5 lr=1e-4",
    ],
)
def test_the_wording_of_other_trainers(tmp_path: Path, line: str) -> None:
    write(tmp_path / "t.log", "".join(line.format(e=e) + "\n" for e in range(1, 5)))
    points = points_of(tmp_path)
    assert len(points) == 4
    assert {"0.15", "0.45"} <= {str(one["value"]) for point in points for one in point["metrics"].values()}


def test_json_lines_and_a_trainers_state(tmp_path: Path) -> None:
    lines = [json.dumps({"epoch": i / 3, "step": i, "loss": 3 / (i + 1), "note": "x"}) for i in range(30)]
    write(tmp_path / "a.jsonl", "\n".join([*lines, "not json"]))
    state = {
        "global_step": 20,
        "log_history": [{"loss": 1.20, "step": 5, "epoch": 0.5}, {"eval_loss": 1.1, "step": 5, "epoch": 0.5}],
    }
    write(tmp_path / "checkpoint-20" / "trainer_state.json", json.dumps(state, indent=2))
    found = read(tmp_path)
    assert {run.fact["name"]: len(run.fact["points"]) for run in found.runs} == {
        "a": 30,
        "checkpoint-20/trainer_state": 1,
    }
    assert reasons(found)["a.jsonl"] == "lines that are no JSON objects: 1 (the others were read)"
    assert "file's last change" in found.runs[0].fact["note"]


def test_of_very_many_points_some_are_kept_and_it_says_so(tmp_path: Path) -> None:
    write(tmp_path / "long.log", "".join(f"step={i} loss={i}.5\n" for i in range(50_000)))
    (run,) = read(tmp_path).runs
    assert MOST_POINTS // 2 < len(run.fact["points"]) <= 2 * MOST_POINTS
    assert "of its 50000 points are kept" in run.fact["note"]


@pytest.mark.parametrize(
    "line", ["the epoch of loss", "step 1 done", "loss=nan epoch=1", "lossy compression step 3", "epoch=1 time=3.2"]
)
def test_what_only_sounds_like_training_is_none(tmp_path: Path, line: str) -> None:
    write(tmp_path / "x.log", f"{line}\n" * 5)
    assert not read(tmp_path).runs
