"""The intervals hold the truth as often as they say."""

from __future__ import annotations

import math
import random

import pytest

from sitrepd.benchmarks.statistics import (
    differs,
    freedom,
    mean_interval,
    outlier,
    quantile,
    ratio_interval,
    sample,
    tail,
)


@pytest.mark.parametrize(
    ("freedom", "wanted"),
    [(1, 12.7062), (2, 4.30265), (3, 3.18245), (10, 2.22814), (30, 2.04227), (1000, 1.96234)],
)
def test_quantiles_of_student(freedom: float, wanted: float) -> None:
    assert quantile(0.95, freedom) == pytest.approx(wanted, abs=2e-4)
    assert tail(quantile(0.95, freedom), freedom) == pytest.approx(0.05, abs=1e-9)


def test_quantiles_far_out() -> None:
    assert quantile(0.999, 5) == pytest.approx(6.86883, abs=1e-4)
    assert quantile(0.99, 1) == pytest.approx(63.6567, abs=1e-3)


@pytest.mark.parametrize(("one", "other"), [(3, 3), (3, 20), (5, 5), (10, 4), (20, 20), (8, 12)])
@pytest.mark.parametrize("noise", [(1.5, 1.5), (1.0, 3.0)])
def test_95_of_100_intervals_hold_the_truth(one: int, other: int, noise: tuple[float, float]) -> None:
    draw = random.Random(f"{one} {other} {noise}")
    # 4000 trials have a standard error of 0.35 % themselves.
    held, trials = 0, 4000
    for _ in range(trials):
        ours = sample([draw.gauss(94.0, noise[0]) for _ in range(one)])
        base = sample([draw.gauss(88.8, noise[1]) for _ in range(other)])
        found = ratio_interval(ours, base)
        assert found is not None
        held += found.low <= 94.0 / 88.8 - 1 <= found.high
    assert 0.93 <= held / trials <= 0.97


@pytest.mark.parametrize("count", [3, 5, 20])
def test_an_interval_of_a_mean_holds_the_truth_as_often(count: int) -> None:
    draw = random.Random(count)
    held = 0
    for _ in range(4000):
        found = mean_interval(sample([draw.gauss(50, 4) for _ in range(count)]))
        assert found is not None
        held += found[0] <= 50 <= found[1]
    assert 0.93 <= held / 4000 <= 0.97


def test_what_one_value_or_a_baseline_near_zero_says() -> None:
    assert ratio_interval(sample([1.0]), sample([1.0, 2.0])) is None
    assert ratio_interval(sample([1.0, 2.0]), sample([-1.0, 1.1])) is None
    assert mean_interval(sample([1.0])) is None


def test_a_baseline_that_may_be_zero_bounds_no_ratio_but_hides_no_difference() -> None:
    noisy, far = sample([51.99, 96.75, 23.09]), sample([574.9, 463.4, 472.9])
    assert ratio_interval(far, noisy) is None
    assert (differs(far, noisy), differs(noisy, far)) == (1, -1)
    assert differs(sample([120.0, 30.0, 90.0]), noisy) == 0
    assert differs(sample([1.0, 1.1]), sample([0.0, 0.0])) == 1
    assert differs(sample([0.0, 0.0]), sample([0.0, 0.0])) == 0


@pytest.mark.parametrize("seed", range(3))
def test_one_in_twenty_of_equals_differs(seed: int) -> None:
    random_ = random.Random(seed)

    def runs(spread: float) -> list[float]:
        return [random_.gauss(100, spread) for _ in range(5)]

    wrong = sum(bool(differs(sample(runs(90)), sample(runs(40)))) for _ in range(2000))
    assert 0.03 <= wrong / 2000 <= 0.07


def test_equal_values_are_known_to_their_last_digit_alone() -> None:
    found = ratio_interval(sample([94.0, 94.0], 0.1), sample([94.0, 94.0], 0.1))
    assert found is not None
    assert found.low < 0 < found.high
    exact = ratio_interval(sample([2.0, 2.0]), sample([1.0, 1.0]))
    assert exact is not None
    assert (exact.low, exact.high) == (1.0, 1.0)


def test_degrees_of_freedom_of_tiny_and_unlike_variances() -> None:
    assert freedom(1e-200, 5, 1e-200, 5) == pytest.approx(8)
    assert freedom(1.0, 5, 0.0, 9) == pytest.approx(4)


def test_an_outlier_is_one_that_is_far_out() -> None:
    assert outlier([94.0, 94.1, 93.9, 94.0, 50.0]) == 4
    assert outlier([94.0, 94.1, 93.9, 94.0, 94.4]) is None
    assert outlier([94.0, 94.0, 50.0]) is None
    assert outlier([94.0] * 5) is None
    draw = random.Random(7)
    rate = sum(outlier([draw.gauss(0, 1) for _ in range(8)]) is not None for _ in range(4000)) / 4000
    assert rate < 0.004
    assert not math.isnan(rate)
