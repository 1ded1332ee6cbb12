"""Training logs as printed: dicts of the HF Trainer, epochs and bars of SpecForge, bars and evals of TorchSpec."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from sitrepd.benchmarks.trainings.points import Points

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_DICT = re.compile(r"\{'[^{}]*\}")
_BARE = re.compile(r"(?<=[ :])(-?(?:nan|inf))(?=[,}])")
_EPOCH = re.compile(
    r"(?P<mode>Train|Eval) Epoch \[(?P<epoch>\d+)/\d+\],\s*pos(?:ition)? (?P<at>\d+),\s*"
    r"(?P<what>Acc|pLoss): (?P<value>\S+)"
)
_EVALUATED = re.compile(r"Step (?P<step>\d+) eval: (?P<pairs>.*)")
_PAIR = re.compile(r"(\w+)=([^\s,\]]+)")
_BAR = re.compile(r"(?P<about>[^|\]]*?):\s+\d+%\|[^|]*\|\s*(?P<done>\d+)/(?P<all>\d+) \[[^\]]*?(?P<pairs>\w+=[^\]]*)\]")
_BAR_EPOCH = re.compile(r"Epoch (\d+)\s*$")
_BARS = 400
# As TorchSpec calls them where it sends them to a tracker.
_TORCHSPEC = {"loss": "eval/avg_loss", "acc": "eval/avg_acc", "sim_acc_len": "eval/simulated_acc_len"}
FOLDERS = "Epochs count from 1 here; SpecForge's folder of epoch N is epoch_{N-1}."


def read_log(lines: Iterable[str]) -> tuple[str | None, Points, list[str]]:
    """(who wrote it, points, notes); None where nothing was recognised."""
    told: dict[str, Points] = {name: Points() for name in ("HF Trainer", "SpecForge", "TorchSpec", "bars")}
    bars = ""
    for piece in _pieces(lines):
        if "'" in piece and "{" in piece:
            _dicts(piece, told["HF Trainer"])
        if "Epoch [" in piece and (epoch := _EPOCH.search(piece)):
            name = f"{epoch['mode'].lower()}/{epoch['what'].lower()}_{epoch['at']}"
            told["SpecForge"].add(epoch["epoch"], None, {name: epoch["value"]})
        elif " eval: " in piece and (step := _EVALUATED.search(piece)):
            values = {_TORCHSPEC.get(name, f"eval/{name}"): value for name, value in _PAIR.findall(step["pairs"])}
            told["TorchSpec"].add(None, step["step"], values)
        elif "%|" in piece and "=" in piece:
            bars = _bar(piece, told["bars"]) or bars
    return _weightiest(told, bars)


def _weightiest(told: dict[str, Points], bars: str) -> tuple[str | None, Points, list[str]]:
    """Whole epochs say more than a bar does; evaluations and the bar of TorchSpec belong together."""
    if told["HF Trainer"].found:
        return "HF Trainer", told["HF Trainer"], []
    if told["SpecForge"].found:
        return "SpecForge", told["SpecForge"], [FOLDERS]
    if told["TorchSpec"].found:
        epochs = {point.step: point.epoch for point in told["bars"].found.values()}
        for point in told["TorchSpec"].found.values():
            told["bars"].add(epochs.get(point.step), point.step, point.metrics)
        return "TorchSpec", told["bars"], []
    return (bars or None, told["bars"], []) if told["bars"].found else (None, told["bars"], [])


def _pieces(lines: Iterable[str]) -> Iterator[str]:
    """A bar is redrawn within its line, and moves the cursor."""
    for line in lines:
        for piece in line.split("\r"):
            plain = _ANSI.sub("", piece).strip() if "\x1b" in piece else piece.strip()
            if plain:
                yield plain


def _dicts(piece: str, points: Points) -> None:
    """`{'loss': 2.2091, 'learning_rate': 1e-05, 'epoch': 0.09}`, its numbers in quotes or not."""
    for found in _DICT.findall(piece):
        try:
            told: Any = ast.literal_eval(_BARE.sub(r"'\1'", found))
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        # The summary at the end is of no epoch.
        if isinstance(told, dict) and "train_runtime" not in told and all(isinstance(name, str) for name in told):
            rest = {name: value for name, value in told.items() if name not in ("epoch", "step", "global_step")}
            points.add(told.get("epoch"), told.get("step", told.get("global_step")), rest)


def _bar(piece: str, points: Points) -> str | None:
    """The values behind a bar, of some four hundred of its steps; who drew it."""
    bar = _BAR.search(piece)
    if bar is None or "train" not in bar["about"].lower():
        return None
    done, every = int(bar["done"]), max(1, int(bar["all"]) // _BARS)
    if done == 0 or (done % every and done != int(bar["all"])):
        return None
    pairs = dict(_PAIR.findall(bar["pairs"]))
    epoch = _BAR_EPOCH.search(bar["about"])
    if epoch is not None:
        # SpecForge counts the steps of each epoch anew.
        points.add(epoch[1], int(epoch[1]) * int(bar["all"]) + done, pairs)
        return "SpecForge"
    passed = pairs.pop("epoch", "").partition("/")[0]
    points.add(passed or None, done, {name: value.removesuffix("s") for name, value in pairs.items()})
    return "TorchSpec" if "acc_len" in pairs else "a progress bar"
