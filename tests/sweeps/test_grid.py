"""From parameters to combinations: what can be written, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from sitrepd.errors import InvalidFact
from sitrepd.sweeps.asked import SweepAsked
from sitrepd.sweeps.expressions import ABSENT, Expression
from sitrepd.sweeps.grid import grid_of, trials_of


def asked(parameters: dict[str, Any], **more: Any) -> SweepAsked:
    told = {"template": {"argv": ["serve"]}, "parameters": parameters, "benchmarks": [{}]}
    return SweepAsked.model_validate(told | more)


def settings(told: SweepAsked) -> list[dict[str, Any]]:
    return [one.settings for one in trials_of(told, grid_of(told))]


def test_every_combination_is_tried_the_first_parameter_slowest() -> None:
    assert settings(asked({"a": [1, 2], "NCCL_ALGO": ["Ring", "Tree"]})) == [
        {"a": 1, "NCCL_ALGO": "Ring"}, {"a": 1, "NCCL_ALGO": "Tree"}, {"a": 2, "NCCL_ALGO": "Ring"}, {"a": 2, "NCCL_ALGO": "Tree"},
    ]  # fmt: skip


def test_a_range_includes_both_ends_and_has_no_rounding_errors() -> None:
    assert settings(asked({"a": {"from": 1, "to": 3}})) == [{"a": 1}, {"a": 2}, {"a": 3}]
    steps = settings(asked({"mem-fraction-static": {"from": 0.80, "to": 0.90, "step": 0.05}}))
    assert [one["mem-fraction-static"] for one in steps] == [0.8, 0.85, 0.9]


def test_draft_tokens_follow_the_steps_and_the_baseline_has_none() -> None:
    told = asked(
        {"speculative-num-steps": ["absent", 1, 3]},
        derived={
            "speculative-num-draft-tokens": "speculative_num_steps + 1",
            "speculative-algorithm": "'EAGLE3' if speculative_num_steps is not absent else absent",
        },
        baseline={"speculative-num-steps": "absent"},
    )
    trials = trials_of(told, grid_of(told))
    assert [one.label for one in trials] == ["baseline", "speculative-num-steps 1", "speculative-num-steps 3"]
    assert [one.settings["speculative-num-draft-tokens"] for one in trials] == [None, 2, 4]
    assert [one.settings["speculative-algorithm"] for one in trials] == [None, "EAGLE3", "EAGLE3"]


def test_a_baseline_may_lie_outside_of_the_grid() -> None:
    told = asked(
        {"steps": [2, 3]}, baseline={"steps": "absent", "algorithm": "absent"}, derived={"algorithm": "'EAGLE3'"}
    )
    trials = trials_of(told, grid_of(told))
    assert [(one.baseline, one.settings) for one in trials] == [
        (True, {"steps": None, "algorithm": None}), (False, {"steps": 2, "algorithm": "EAGLE3"}), (False, {"steps": 3, "algorithm": "EAGLE3"}),
    ]  # fmt: skip


def test_constraints_leave_combinations_out() -> None:
    told = asked({"steps": [1, 2, 3], "topk": [1, 4]}, constraints=["topk == 1 or steps > 2", "steps * topk < 12"])
    assert settings(told) == [{"steps": 1, "topk": 1}, {"steps": 2, "topk": 1}, {"steps": 3, "topk": 1}]


@pytest.mark.parametrize(
    ("parameters", "more", "said"),
    [
        ({"a": {"from": 1, "to": 5, "step": 0}}, {}, "never ends"),
        ({"a": {"from": 5, "to": 1}}, {}, "never ends"),
        ({"a": {"from": 0.1, "to": 0.9}}, {}, "in steps of what"),
        ({"a": {"from": 1, "to": 10**9}}, {}, "1000 are the most"),
        ({"a": {"from": 1, "to": 100}, "b": {"from": 1, "to": 100}}, {}, "More than 1000 combinations"),
        ({"a": {"from": 1, "to": 900}, "b": {"from": 1, "to": 900}}, {}, "have 810000 combinations"),
        ({"a": []}, {}, "has no values"),
        ({"a": [1, 1]}, {}, "twice"),
        ({"a": [1], "--a": [2]}, {}, "the same setting"),
        ({"a": [1], "a b": [2]}, {}, "no name of a flag"),
        ({"a": [1]}, {"constraints": ["a > 5"]}, "leave no combination"),
        ({"a": [1]}, {"constraints": ["b > 5"]}, "b is not known; there are a"),
        ({"a": [1]}, {"derived": {"b": "a +"}}, "cannot be read"),
        ({"a": [0]}, {"derived": {"b": "1 / a"}}, "cannot be computed"),
        ({"a": ["x"]}, {"derived": {"b": "a + 1"}}, "cannot be computed"),
    ],
)  # fmt: skip
def test_what_has_no_end_or_no_sense_is_refused(parameters: Any, more: Any, said: str) -> None:
    with pytest.raises(InvalidFact, match=said):
        settings(asked(parameters, **more))


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "a.__class__", "(lambda: 1)()", "[x for x in (1, 2)]", "open('/etc/passwd')",
        "2 ** 10 ** 10", "'x' * 10 ** 9", "'%1000000000d' % 1", "a if", "1 +" * 200, "b'x'", "f'{a}'", "max(key=a)", "a := 3",
        "((((9 ** 64) ** 64) ** 64) ** 64) ** 64", "[0] * 10 ** 9", "(-8) ** 0.5", "round(5, -10 ** 9)",
    ],
)  # fmt: skip
def test_an_expression_computes_and_does_nothing_else(text: str) -> None:
    with pytest.raises(InvalidFact):
        Expression(text, "derived.b").value({"a": 1})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a + 1", 4), ("a // 2 * 4 - 1", 3), ("min(a, 2) + max(1, b)", ABSENT), ("b + 1", ABSENT), ("b is absent", True),
        ("b != absent", False), ("1 if b is absent else 2", 1), ("b > 3", ABSENT), ("a in (1, 3)", True), ("not b", True),
        ("1 < a <= 3", True), ("a == 3 and b == absent", True), ("round(a / 2, 1)", 1.5), ("-a", -3), ("'EAGLE' + '3'", "EAGLE3"),
    ],
)  # fmt: skip
def test_what_an_expression_comes_to(text: str, value: Any) -> None:
    assert Expression(text, "x").value({"a": 3, "b": ABSENT}) == value
