"""Training runs from the files of the trainers: real ones of Transformers 5.19, and lines as SpecForge and TorchSpec print them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from sitrepd.benchmarks.metrics import Metric, describe
from sitrepd.benchmarks.trainings.best import Place, best, chosen, drawn
from sitrepd.benchmarks.trainings.points import ReadPoint, TrainingFileError, thinned
from sitrepd.benchmarks.trainings.reading import ReadTraining, read_training
from sitrepd.errors import InvalidFact

DATA = Path(__file__).parents[2] / "data" / "trainings"
SPECFORGE_EPOCHS = """[rank 0] Loaded vocab mapping
Training Epoch 0: 100%|██████████| 500/500 [10:00<00:00,  1.20s/it]
Train Epoch [1/2], position 0,  Acc: 0.41
Train Epoch [1/2], position 1,  Acc: 0.32
Train Epoch [1/2], position 0, pLoss: 2.31
Eval Epoch [1/2], position 0,  Acc: 0.40
Train Epoch [2/2], position 0,  Acc: 0.47
Train Epoch [2/2], position 0, pLoss: 1.98
Eval Epoch [2/2], position 0,  Acc: 0.39
"""
SPECFORGE_BARS = (
    "Training Epoch 0:   0%|          | 0/400 [00:00<?, ?it/s]\r"
    "Training Epoch 0:  50%|█████     | 200/400 [01:00<01:00,  3.31it/s, loss=2.40, acc=0.40, time=0.30s]\r"
    "Training Epoch 0: 100%|██████████| 400/400 [02:00<00:00,  3.31it/s, loss=2.10, acc=0.44, time=0.30s]\n"
    "Evaluating Epoch 0:  50%|█████     | 2/4 [00:01<00:01,  3.31it/s, loss=9.99]\n"
    "Training Epoch 1:  50%|█████     | 200/400 [01:00<01:00,  3.31it/s, loss=1.90, acc=0.46, time=0.30s]\n"
)
TORCHSPEC = (
    "Training:   1%|          | 100/10000 [05:00<8:00:00,  3.00s/step, loss=2.345, acc=0.412, acc_len=1.85, thru=12.1, epoch=1/3]\r"
    "\x1b[32m2026-11-01 10:00:00\x1b[0m INFO Step 100 eval: loss=2.2000, acc=0.4100, sim_acc_len=1.91\n"
    "Training:   2%|▏         | 200/10000 [10:00<8:00:00,  3.00s/step, loss=2.101, acc=0.455, acc_len=2.04, thru=12.1, epoch=1/3]\n"
    "2026-11-01 10:05:00 INFO Step 200 eval: loss=2.0000, acc=0.4500, sim_acc_len=2.05\n"
    "2026-11-01 10:10:00 INFO Step 300 eval: loss=2.1000, acc=0.4450, sim_acc_len=2.02\n"
)


def read(tmp_path: Path, text: str, name: str = "train.log") -> ReadTraining:
    path = tmp_path / name
    path.write_text(text)
    return read_training(path, name)


def told(found: ReadTraining) -> list[tuple[Any, Any, dict[str, str]]]:
    return [(one.epoch, one.step, {name: str(value) for name, value in one.metrics.items()}) for one in found.points]


def places(found: ReadTraining) -> list[Place]:
    return [
        Place(one.epoch, one.step, {name: Metric(name, value, *describe(name)) for name, value in one.metrics.items()})
        for one in found.points
    ]


def test_the_state_and_the_output_of_a_real_hf_trainer_agree() -> None:
    state = read_training(DATA / "transformers-5.19-trainer_state.json", "trainer_state.json")
    printed = read_training(DATA / "transformers-5.19-printed.log", "train.log")
    assert (state.tool, printed.tool, state.count, printed.count) == ("HF Trainer", "HF Trainer", 6, 6)
    for one, other in zip(state.points, printed.points, strict=True):
        assert one.metrics.keys() == other.metrics.keys()
        for name, value in one.metrics.items():
            assert float(other.metrics[name]) == pytest.approx(float(value), rel=1e-3)
    assert [one.step for one in state.points] == [4, 6, 8, 12, 16, 18]
    assert "runtime" not in str(told(state))
    top = best(places(state))
    assert top is not None
    assert (top.metric.name, str(top.place)) == ("eval_loss", "epoch 3.0, step 18")
    assert state.note == f"The trainer's own best metric is {top.metric.value}, at step 18."


def test_a_folder_stands_for_its_latest_state(tmp_path: Path) -> None:
    body = (DATA / "transformers-5.19-trainer_state.json").read_text()
    for step in (6, 18):
        (tmp_path / f"checkpoint-{step}").mkdir()
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(body)
    assert read_training(tmp_path, "out").count == 6
    with pytest.raises(TrainingFileError, match=r"has no trainer_state\.json"):
        read_training(DATA, "x")


def test_older_printed_dicts_and_what_is_not_finite(tmp_path: Path) -> None:
    found = read(tmp_path, (
        "{'loss': 2.2091, 'grad_norm': 0.6, 'learning_rate': 1.09e-05, 'epoch': 0.5}\n"
        "  {'loss': nan, 'grad_norm': inf, 'epoch': 1.0}\n{'eval_loss': 2.1, 'eval_runtime': 9.25, 'epoch': 1.0}\n"
        "{'train_runtime': 331.7, 'train_loss': 13.3, 'epoch': 1.0}\n{'not': 'numbers', 'epoch': 1.0}\n{'a': __import__}\n"
    ))  # fmt: skip
    assert told(found) == [
        (Decimal("0.5"), None, {"loss": "2.2091", "grad_norm": "0.6", "learning_rate": "0.0000109"}),
        (Decimal("1.0"), None, {"eval_loss": "2.1"}),
    ]
    assert found.note == "2 values were not finite, the first loss at epoch 1.0."


def test_epochs_of_specforge(tmp_path: Path) -> None:
    found = read(tmp_path, SPECFORGE_EPOCHS)
    assert (found.tool, found.count) == ("SpecForge", 2)
    assert told(found)[0] == (
        Decimal(1), None, {"train/acc_0": "0.41", "train/acc_1": "0.32", "train/ploss_0": "2.31", "eval/acc_0": "0.40"},
    )  # fmt: skip
    assert "epoch_{N-1}" in (found.note or "")
    top = best(places(found))
    assert top is not None
    assert (top.metric.name, str(top.metric.value), str(top.place)) == ("eval/acc_0", "0.40", "epoch 1")
    assert best(places(found), "train/acc_0").place.epoch == 2  # type: ignore[union-attr]


def test_bars_of_specforge(tmp_path: Path) -> None:
    found = read(tmp_path, SPECFORGE_BARS)
    assert found.tool == "SpecForge"
    assert told(found) == [
        (Decimal(0), 200, {"loss": "2.40", "acc": "0.40"}), (Decimal(0), 400, {"loss": "2.10", "acc": "0.44"}),
        (Decimal(1), 600, {"loss": "1.90", "acc": "0.46"}),
    ]  # fmt: skip


def test_torchspec(tmp_path: Path) -> None:
    found = read(tmp_path, TORCHSPEC)
    assert found.tool == "TorchSpec"
    assert [(one.epoch, one.step) for one in found.points] == [(1, 100), (1, 200), (None, 300)]
    assert told(found)[0][2] == {
        "loss": "2.345", "acc": "0.412", "acc_len": "1.85", "eval/avg_loss": "2.2000", "eval/avg_acc": "0.4100",
        "eval/simulated_acc_len": "1.91",
    }  # fmt: skip
    top = best(places(found))
    assert top is not None
    assert (top.metric.name, str(top.metric.value), top.place.step) == ("eval/simulated_acc_len", "2.05", 200)


def test_json_lines_of_any_trainer(tmp_path: Path) -> None:
    lines = [
        {"step": 10, "train": {"loss": 3.0}, "timestamp": 1.0}, {"global_step": 20, "train/loss": 2.0, "epoch": 1},
        {"step": 20, "epoch": 1, "eval/loss": 2.5, "tag": "x", "done": True}, {"hello": 1},
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, lines))
    found = read(tmp_path, text + '\n{"step": 30, "los', "m.jsonl")
    assert told(found) == [
        (None, 10, {"train/loss": "3.0"}), (Decimal(1), 20, {"train/loss": "2.0", "eval/loss": "2.5"}),
    ]  # fmt: skip
    assert found.note == "Line 5, the last, is cut short and was left out."
    assert read(tmp_path, json.dumps(lines), "m.json").count == 2
    assert read(tmp_path, json.dumps(lines, indent=1), "m.json").count == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no metrics by epoch or step"),
        ("nothing here\n", "no metrics by epoch or step"),
        ('{"step": 1}\n', "no metrics by epoch or step"),
        ('{"step": 1, "loss": 2}\nnonsense\n{"step": 2, "loss": 1}\n', "no JSON in line 2"),
        ('{"log_history": [], "global_step": 0}', "empty log_history"),
        ('{"step": 1, "loss": NaN}\n', "no metrics by epoch or step"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(TrainingFileError, match=why):
        read(tmp_path, text)
    with pytest.raises(TrainingFileError, match="cannot be read"):
        read_training(tmp_path / "none", "none")


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ('{"step": "1e999999999", "loss": 1}\n{"step": 2, "loss": 1}\n', [2]),
        ('{"epoch": "1e999999999", "step": 3, "loss": 1}\n', [3]),
        ('{"step": 4, "loss": "1e999999999", "acc": 0.5}\n', [4]),
        ('{"step": 5, "loss": 1}\n' + '{"a":' * 50_000, [5]),
    ],
)
def test_numbers_that_would_fill_the_memory_are_no_numbers(tmp_path: Path, text: str, steps: list[int]) -> None:
    found = read(tmp_path, text, "m.jsonl")
    assert [point.step for point in found.points] == steps
    assert all(value < 10 for point in found.points for value in point.metrics.values())


def test_of_many_points_the_best_are_kept(tmp_path: Path) -> None:
    lines = [{"step": at, "loss": 1.0 + abs(at - 14_321) / 1e5} for at in range(20_000)]
    found = read(tmp_path, "\n".join(map(json.dumps, lines)), "m.jsonl")
    assert (found.count, len(found.points)) == (20_000, 1001)
    assert "1001 of 20000 points are kept" in (found.note or "")
    assert [found.points[at].step for at in (0, -1)] == [0, 19_999]
    top = best(places(found))
    assert top is not None
    assert top.place.step == 14_321
    assert thinned([ReadPoint(None, 1, {})]) == [ReadPoint(None, 1, {})]


def test_which_metric_matters_most() -> None:
    def run(*names: str) -> list[Place]:
        return [Place(None, step, {name: Metric(name, Decimal(step), None, None) for name in names}) for step in (1, 2)]

    assert chosen(run("loss", "eval_loss", "lr")) == "eval_loss"
    assert chosen(run("train/acc_0", "train/ploss_0", "eval/acc_0")) == "eval/acc_0"
    assert chosen(run("train/avg_loss", "eval/simulated_acc_len", "eval/avg_acc")) == "eval/simulated_acc_len"
    assert chosen(run("accept_rate", "loss")) == "accept_rate"
    assert chosen(run("lr")) is None
    assert best(run("lr")) is None
    assert best(run("loss")[:1]) is None


def test_curves_have_their_counterpart_beside_them(tmp_path: Path) -> None:
    found = places(read(tmp_path, SPECFORGE_EPOCHS))
    drawing = drawn(found).svg()
    for text in ("eval/acc_0 by epoch", "train/acc_0", "0.40 at epoch 1"):
        assert text in drawing
    with pytest.raises(InvalidFact, match="there is no wish; there are eval/acc_0"):
        drawn(found, "wish")
    with pytest.raises(InvalidFact, match="no metric has two points"):
        drawn([])
