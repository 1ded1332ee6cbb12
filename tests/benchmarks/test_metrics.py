from __future__ import annotations

from decimal import Decimal

import pytest

from sitrepd.benchmarks.metrics import describe, display_text, metric, percent_text
from sitrepd.decimals import number_text


@pytest.mark.parametrize(
    ("name", "unit", "better"),
    [
        ("output_throughput", "tok/s", "higher"), ("steady_state_output_throughput", "tok/s", "higher"),
        ("request_throughput", "req/s", "higher"), ("last_gen_throughput", "tok/s", "higher"),
        ("p99_e2e_latency_ms", "ms", "lower"), ("std_itl_ms", "ms", "lower"), ("duration", "s", "lower"),
        ("latency", "s", "lower"), ("last_ttft", "s", "lower"), ("steady_state_window_s", "s", "lower"),
        ("concurrency", "requests", None), ("completed", "requests", "higher"),
        ("total_output_tokens_retokenized", "tokens", None), ("accept_length", "tokens", "higher"),
        ("acc_length", "tokens", "higher"), ("cache_hit_rate", None, "higher"), ("accept_rate", None, "higher"),
        ("total_ms", "ms", "lower"), ("mean_ms", "ms", "lower"), ("calls", "calls", None),
        ("train/loss", None, "lower"), ("eval_loss", None, "lower"), ("ploss_3", None, "lower"),
        ("acc_0", None, "higher"), ("val_accuracy", None, "higher"), ("learning_rate", None, None),
        ("tokens_per_second", "tok/s", "higher"), ("tokens_per_joule", "tok/J", "higher"),
        ("something_else", None, None),
    ],
)  # fmt: skip
def test_units_and_directions(name: str, unit: str | None, better: str | None) -> None:
    assert describe(name) == (unit, better)
    assert (metric(name, Decimal(1)).unit, metric(name, Decimal(1)).better) == (unit, better)


@pytest.mark.parametrize(
    ("told", "whole", "shown"),
    [("94.0", "94.0", "94.0"), ("1421.7", "1421.7", "1421.7"), ("420.6354488139383", "420.6354488139383", "420.64"),
     ("1E+6", "1e+06", "1e+06"), ("0.125", "0.125", "0.125"), ("5e-7", "5e-07", "5e-07"), ("16", "16", "16"),
     ("1e-05", "1e-05", "1e-05"), ("1.50e-05", "0.0000150", "0.0000150"), ("0.000010", "0.000010", "0.000010"), ("0.000421", "0.000421", "0.000421"),
     ("0.00042137", "0.00042137", "0.000421"), ("-2.5e-6", "-2.5e-06", "-2.5e-06"), ("0.0", "0.0", "0.0"),
     ("4.1E+12", "4.1e+12", "4.1e+12"), ("0E-7", "0.0000000", "0.00"), ("0.0001", "0.0001", "0.0001")],
)  # fmt: skip
def test_numbers_are_printed_as_tools_print_them(told: str, whole: str, shown: str) -> None:
    assert number_text(Decimal(told)) == whole
    assert display_text(Decimal(told)) == shown


@pytest.mark.parametrize(
    ("value", "text"),
    [("5.8558", "+5.9 %"), ("-4.166", "-4.2 %"), ("0", "0.0 %"), ("-0.04", "0.0 %"), ("0.05", "0.0 %"),
     ("0.15", "+0.2 %"), ("-0.25", "-0.2 %"), ("1234.5", "+1234.5 %")],
)  # fmt: skip
def test_per_cent_has_a_sign_and_one_decimal_half_to_even(value: str, text: str) -> None:
    assert percent_text(Decimal(value)) == text
