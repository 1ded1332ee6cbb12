"""The rules that SGLang has for the flags of speculative decoding."""

from __future__ import annotations

import pytest
from tests.launches.check.subjects import subject

from sitrepd.launches.check.speculative import constraints

MOST = ("--max-running-requests", "64")


def found(*flags: str) -> list[tuple[str, str, str]]:
    return [(one.level, one.text, one.fix or "") for one in constraints(subject(*MOST, *flags).facts)]


def three(steps: int, topk: int, draft: int, *more: str) -> tuple[str, ...]:
    numbers = ("--speculative-num-steps", str(steps), "--speculative-eagle-topk", str(topk))
    return "--speculative-algorithm", "EAGLE3", *numbers, "--speculative-num-draft-tokens", str(draft), *more


@pytest.mark.parametrize(
    "flags", [(), ("--speculative-algorithm", "EAGLE3"), three(3, 1, 4), three(5, 4, 8), three(3, 4, 37)]
)
def test_what_goes_together(flags: tuple[str, ...]) -> None:
    assert found(*flags) == []


@pytest.mark.parametrize(
    ("flags", "level", "text", "fix"),
    [
        (three(3, 1, 6), "warning", "makes 4 draft tokens of the 6", "--speculative-num-draft-tokens 4"),
        (three(3, 4, 38), "error", "36 candidates; 38 draft tokens want 37", "--speculative-num-draft-tokens 37"),
        (("--speculative-algorithm", "EAGLE", "--speculative-eagle-topk", "4"), "error", "are refused without", "all"),
        (("--speculative-algorithm", "EAGLE", "--speculative-num-steps", "2"), "warning", "wants", "draft-tokens 3"),
        (("--speculative-num-steps", "3"), "warning", "no effect without --speculative-algorithm", "EAGLE3"),
        (three(3, 4, 8, "--attention-backend", "trtllm_mha"), "error", "top-k 1 only", "topk 1"),
        (three(3, 4, 8, "--attention-backend", "fa4", "--page-size", "64"), "error", "pages of 64", "--page-size 1"),
        (three(3, 4, 8, "--speculative-use-rejection-sampling"), "error", "wants top-k 1", "topk 1"),
        (
            ("--speculative-algorithm", "NGRAM", "--speculative-use-rejection-sampling"),
            "error",
            "does not go with NGRAM",
            "Leave",
        ),
    ],
)
def test_what_does_not(flags: tuple[str, ...], level: str, text: str, fix: str) -> None:
    [one] = found(*flags)
    assert one[0] == level
    assert text in one[1]
    assert fix in one[2]


def test_the_silent_limit_of_48_requests_is_said() -> None:
    [note] = constraints(subject(*three(3, 1, 4)).facts)
    assert note.level == "note"
    assert "48" in note.text
