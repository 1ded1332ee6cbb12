"""Models whose heads divide between the ranks, and such as do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from tests.launches.check.subjects import CONFIG, model, subject

from sitrepd.launches.check.division import check_division
from sitrepd.launches.check.model import Check, Look


def checked(folder: Path, *flags: str, **config: Any) -> list[Check]:
    told = model(folder / "m", config={**CONFIG, **config})
    return list(check_division(subject(*flags, model=told), cast("Look", None)))


@pytest.mark.parametrize(
    ("flags", "config"),
    [
        (["--tp-size", "8"], {}),
        (["--tp", "16"], {}),
        (["--tp-size", "8"], {"num_key_value_heads": 1}),
        (["--tp-size", "3"], {"num_attention_heads": 24, "num_key_value_heads": 24}),
        (["--tp-size", "8"], {"num_key_value_heads": 3, "kv_lora_rank": 512}),
        (["--tp-size", "8", "--dp-size", "4", "--enable-dp-attention"], {"num_key_value_heads": 6}),
        (["--tp-size", "4"], {"text_config": {"num_attention_heads": 8}, "num_attention_heads": 7}),
    ],
)
def test_heads_that_divide(tmp_path: Path, flags: list[str], config: dict[str, Any]) -> None:
    [check] = checked(tmp_path, *flags, **config)
    assert check.level == "ok", check


def test_heads_that_do_not_are_told_with_sizes_that_would(tmp_path: Path) -> None:
    [check] = checked(tmp_path, "--tp-size", "6")
    assert check.level == "error"
    assert check.text == (
        "32 attention heads do not divide by 6 and 8 key-value heads and 6 ranks do not divide, so that the model "
        "cannot be split between 6 ranks."
    )
    assert check.fix == "Write --tp-size 1 or 2 or 4 or 8 or 16."


def test_key_value_heads_are_copied_only_a_whole_number_of_times(tmp_path: Path) -> None:
    [check] = checked(tmp_path, "--tp-size", "8", num_attention_heads=48, num_key_value_heads=6)
    assert check.level == "error"
    assert check.text.startswith("6 key-value heads and 8 ranks do not divide")


@pytest.mark.parametrize(
    "flags", [[], ["--tp-size", "1"], ["--tp-size", "6", "--device", "cpu"], ["--tp-size", "6", "--attn-cp-size", "2"]]
)
def test_nothing_is_said_where_heads_are_not_split_so(tmp_path: Path, flags: list[str]) -> None:
    assert checked(tmp_path, *flags) == []


@pytest.mark.parametrize("config", [{"num_attention_heads": "32"}, {"num_attention_heads": None}, {"text_config": []}])
def test_configs_of_another_kind_break_nothing(tmp_path: Path, config: dict[str, Any]) -> None:
    assert all(check.level == "ok" for check in checked(tmp_path, "--tp-size", "8", **config))
