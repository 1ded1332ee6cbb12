"""What the counters of a server say of a run: SGLang 0.5.16 on an H200 with an EAGLE-3 draft that was never trained."""

from __future__ import annotations

import pytest

from sitrepd.benchmarks.running.counters import Reading, between, parse

_ONE_REQUEST = """\
# HELP sglang:prompt_tokens_total Number of prefill tokens processed.
# TYPE sglang:prompt_tokens_total counter
sglang:prompt_tokens_total{engine_type="unified",model_name="/models/target"} 6.0
# TYPE sglang:generation_tokens_total counter
sglang:generation_tokens_total{engine_type="unified",model_name="/models/target"} 8.0
# TYPE sglang:spec_verify_calls_total counter
sglang:spec_verify_calls_total{engine_type="unified",model_name="/models/target"} 7.0
# TYPE sglang:num_requests_total counter
sglang:num_requests_total{engine_type="unified",model_name="/models/target"} 1.0
"""


def _lengths(before: dict[str, float], after: dict[str, float]) -> list[float]:
    found = between(Reading(before), Reading(after))
    return [float(one.value) for one in found if one.name == "accept_length"]


def test_where_no_draft_was_accepted_the_length_is_one() -> None:
    """The prefill's token is no step's: 752 tokens of 16 requests in 736 steps were one a step, as its log said."""
    first = parse(_ONE_REQUEST)
    grown = {"generated": 752.0, "verified": 736.0, "requests": 16.0, "prompted": 1914.0}
    assert _lengths(dict.fromkeys(first, 0.0), first) == [1.0]
    assert _lengths(first, {name: value + grown[name] for name, value in first.items()}) == [1.0]


@pytest.mark.parametrize(
    ("grown", "length"),
    [
        ({"generated": 2016.0, "verified": 800.0, "requests": 16.0}, [2.5]),
        ({"generated": 2020.0, "verified": 800.0, "requests": 16.0, "retracted": 4.0}, [2.5]),
        ({"generated": 752.0, "verified": 800.0, "requests": 16.0}, [1.0]),
        ({"generated": 752.0, "requests": 16.0}, []),
        ({"generated": 752.0, "verified": 736.0}, []),
        ({"generated": 752.0, "verified": 400.0, "accepted": 300.0, "requests": 16.0}, [1.75]),
    ],
    ids=["accepted", "retracted", "never below one", "no speculation", "requests are not counted", "vLLM"],
)
def test_the_length_of_what_has_grown(grown: dict[str, float], length: list[float]) -> None:
    assert _lengths({"generated": 0.0}, grown) == length
