"""Context lengths that a model has, and such as it has not."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from tests.launches.check.subjects import CONFIG, model, subject

from sitrepd.launches.check.context import check_context
from sitrepd.launches.check.model import Check, Look

LONGER = "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"


def checked(folder: Path, *flags: str, env: dict[str, str] | None = None, **config: Any) -> list[Check]:
    told = model(folder / "m", config={**CONFIG, "max_position_embeddings": 4096, **config})
    return list(check_context(subject(*flags, model=told, env=env), cast("Look", None)))


@pytest.mark.parametrize("flags", [["--context-length", "4096"], ["--context-length=100"]])
def test_what_the_model_holds_is_right(tmp_path: Path, flags: list[str]) -> None:
    [one] = checked(tmp_path, *flags)
    assert one.level == "ok"


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"max_position_embeddings": 64, "text_config": {"max_position_embeddings": 4096}},
        {"rope_scaling": {"rope_type": "default"}},
        {"rope_parameters": {"rope_theta": 10000.0}},
    ],
)
def test_more_than_the_model_holds_is_told(tmp_path: Path, config: dict[str, Any]) -> None:
    [one] = checked(tmp_path, "--context-length", "8192", **config)
    assert one.level == "error"
    assert "8192 is more than the 4096 tokens" in one.text
    assert LONGER in (one.fix or "")


@pytest.mark.parametrize(
    ("flags", "env", "config"),
    [
        ([], {}, {}),
        (["--context-length", "8192"], {LONGER: "1"}, {}),
        (["--context-length", "8192"], {}, {"rope_scaling": {"type": "yarn", "factor": 4.0}}),
        (["--context-length", "8192"], {}, {"max_position_embeddings": None}),
        (["--context-length", "many"], {}, {}),
    ],
)
def test_nothing_is_said_where_it_is_not_known(
    tmp_path: Path, flags: list[str], env: dict[str, str], config: dict[str, Any]
) -> None:
    assert checked(tmp_path, *flags, env=env, **config) == []
