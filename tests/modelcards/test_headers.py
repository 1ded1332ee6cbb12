"""What cannot be a model's folder is refused, and says why."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.modelcards.folders import TARGET, weights

from sitrepd.modelcards.card import read_card
from sitrepd.modelcards.headers import BadModelFolder, read_header


def _header(path: Path, told: object, length: int | None = None, more: int = 0) -> None:
    body = told if isinstance(told, bytes) else json.dumps(told).encode()
    path.write_bytes((len(body) if length is None else length).to_bytes(8, "little") + body + bytes(more))


def _one(**change: object) -> dict[str, object]:
    return {"w": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]} | change}


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.write_bytes(b""), "promises a header of 0 bytes and has 0 in all"),
        (lambda path: _header(path, {}, 1 << 60), "promises a header of 1152921504606846976 bytes"),
        (lambda path: _header(path, b"no json"), "a header that is no JSON"),
        (lambda path: _header(path, []), "a header that is no JSON object"),
        (lambda path: _header(path, b"[" * 100_000), "a header that is no JSON"),
        (lambda path: _header(path, {"w": 1}), "does not describe 'w'"),
        (lambda path: _header(path, _one(shape=[2, -3]), more=12), "does not describe 'w'"),
        (lambda path: _header(path, _one(data_offsets=[12, 0]), more=12), "does not describe 'w'"),
        (lambda path: _header(path, _one(), more=11), "promises 12 bytes of tensors and has 11"),
        (lambda path: _header(path, _one(), more=13), "promises 12 bytes of tensors and has 13"),
        (lambda path: _header(path, _one(shape=[2, 4]), more=12), "promises 12 bytes for w, whose shape needs 16"),
        (lambda path: _header(path, _one(data_offsets=[4, 16]), more=16), "leave a gap or overlap at byte 0"),
        (lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\n"), "a Git LFS pointer"),
        (os.mkfifo, "is no file"),
    ],
)
def test_a_header_that_lies(make: Callable[[Path], object], why: str, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    make(path)
    with pytest.raises(BadModelFolder, match=why):
        read_header(path)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (None, "has no config.json"), ("{", "is no JSON"), ("[]", "no JSON object"), ("{}", "no JSON object"),
        ('{"model_type": "clip"}', "tells no num_hidden_layers"),
    ],
)  # fmt: skip
def test_a_config_that_says_nothing(config: str | None, why: str, tmp_path: Path) -> None:
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    with pytest.raises(BadModelFolder, match=why):
        read_card(tmp_path)


def test_a_missing_shard_and_one_outside_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TARGET))
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": "a.safetensors"}}))
    with pytest.raises(BadModelFolder, match=r"lacks a\.safetensors, which its index names"):
        read_card(tmp_path)
    index.write_text(json.dumps({"weight_map": {"w": "../a.safetensors"}}))
    with pytest.raises(BadModelFolder, match="outside of the folder"):
        read_card(tmp_path)
    index.write_text(json.dumps({"weight_map": [1]}))
    with pytest.raises(BadModelFolder, match="no weight_map"):
        read_card(tmp_path)


def test_the_same_weights_in_another_form_are_not_counted_twice(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(TARGET))
    for name in ("model.safetensors", "consolidated.safetensors"):
        weights(tmp_path / name, {"w": ("BF16", (10, 10))})
    assert read_card(tmp_path).weight_bytes == 200
