"""What an engine made of its flags."""

from __future__ import annotations

from typing import Any

import pytest

from sitrepd.launches.repeat.asked import same, settings_of

SETTINGS = {
    "model_path": "/m", "tp_size": 1, "mem_fraction_static": 0.5, "enable_metrics": True, "max_running_requests": 48,
    "speculative_num_draft_tokens": 4, "cuda_graph_max_bs_decode": 8, "page_size": 1, "disable_radix_cache": True,
    "json_model_override_args": "{}", "context_length": None, "attention_backend": "triton",
}  # fmt: skip


def test_what_was_asked_what_was_changed_and_what_was_chosen() -> None:
    flags: dict[str, Any] = {
        "model": "/m", "tp": "1", "mem_fraction_static": "0.50", "enable_metrics": True, "cuda_graph_max_bs": "8",
        "speculative_num_draft_tokens": "6", "no_such_flag": "x", "api_key": True,
    }  # fmt: skip
    found = {one.name: one for one in settings_of(flags, SETTINGS)}
    assert {name: one.kind for name, one in found.items()} == {
        "model_path": "asked", "tp_size": "asked", "mem_fraction_static": "asked", "enable_metrics": "asked",
        "cuda_graph_max_bs_decode": "asked", "speculative_num_draft_tokens": "changed", "no_such_flag": "unknown",
        "max_running_requests": "chosen", "disable_radix_cache": "chosen", "attention_backend": "chosen",
    }  # fmt: skip
    assert (found["speculative_num_draft_tokens"].asked, found["speculative_num_draft_tokens"].effective) == ("6", 4)


@pytest.mark.parametrize(
    ("asked", "effective", "wanted"),
    [
        ("8", 8, True), ("8", 8.0, True), ("8", 4, False), ("0.9", 0.9, True), ("x", 8, False), (True, True, True),
        (True, False, False), ("true", True, True), (["1", "2"], [1, 2], True), (["1", "2"], [1, 3], False),
        ("4", [4], True), ('{"a": 1}', '{"a":1}', True), ('{"a": 1}', {"a": 1}, True), ("auto", None, False),
        ("1", True, False), ("/m", "/m", True),
    ],
)  # fmt: skip
def test_words_and_values(asked: Any, effective: Any, wanted: bool) -> None:
    assert same(asked, effective) is wanted
