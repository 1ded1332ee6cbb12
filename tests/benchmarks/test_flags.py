"""Words of a command line, looked up and set."""

from __future__ import annotations

import pytest

from sitrepd.benchmarks.running import flags


@pytest.mark.parametrize(
    ("line", "asks"),
    [
        ("bench --port 8000", True),
        ("bench --port=8000", True),
        ("bench --base-url http://127.0.0.1:8000", True),
        ("bench --backend kind=openai_http,target=http://[::1]:8000/v1", True),
        ("bench --port 18000", False),
        ("bench --port 30000 --num-prompts 8000", False),
        ("bench --base-url http://127.0.0.1:80001", False),
        ("bench --output-file /tmp/8000.jsonl", False),
    ],
)
def test_a_port_is_not_taken_for_another_number(line: str, asks: bool) -> None:
    assert flags.asks_port(line.split(), 8000) is asks


def test_an_option_is_set_once_however_it_is_written() -> None:
    assert flags.set_value(["--num_prompts", "5", "-x", "--num-prompts=6"], "--num-prompts", "2") == [
        "-x", "--num-prompts", "2",
    ]  # fmt: skip
    assert flags.with_default(["--num_prompts=5"], "--num-prompts", "2") == ["--num_prompts=5"]
