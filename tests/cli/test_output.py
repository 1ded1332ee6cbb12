"""What people read in a pipe."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

from sitrepd.cli import output


def test_columns_are_aligned_and_nothing_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    long = "python -m sglang.launch_server " + "--flag value " * 40
    rows = [{"id": "L1", "name": None, "command": long}, {"id": "L1400", "name": None, "command": "x\ny"}]
    output.table(rows, (("ID", "id"), ("NAME", "name"), ("COMMAND", "command")))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "ID     COMMAND"
    assert lines[1] == f"L1     {long}".rstrip()
    assert lines[2] == "L1400  x ⏎ y"


def test_nothing_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    output.table([], (("ID", "id"),), "No launches yet.")
    assert capsys.readouterr().out == "No launches yet.\n"


def test_told_text_cannot_move_the_cursor() -> None:
    assert output.printable("a\x1b[2Jb\x07c\x9b31md\te\nf") == "ab" + "c31md\te\nf"
    assert output.printable("a\u202eb\u202c\u2066c\u2069\u2028\U000e0041 接受 🚀") == "abc 接受 🚀"


def test_times_are_those_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert output.local_time("2026-03-01T14:05:09.5Z") == "2026-03-01 23:05:09+09:00"
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (8.24, "8.2 s"), (59.6, "60 s"), (61, "1 min 01 s"), (600, "10 min"), (7440, "2 h 04 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert output.duration(seconds) == text


def test_sizes() -> None:
    assert [output.size(count) for count in (12, 5 << 20, 547_000_000_000)] == ["12 bytes", "5.0 MiB", "509.4 GiB"]


def test_a_fact_is_told_whole(capsys: pytest.CaptureFixture[str]) -> None:
    told = {
        "id": "B3", "note": None, "weight_bytes": 1 << 30, "argv": ["a", "b c"], "detail": "one\ntwo",
        "metrics": {"output_throughput": {"value": Decimal("94.0"), "unit": "tok/s"}},
        "phases": [{"name": "load_weights", "progress": 1}], "config": {"steps": 2},
    }  # fmt: skip
    output.fact(told)
    assert capsys.readouterr().out == (
        "id: B3\nweight_bytes: 1073741824 (1.0 GiB)\nargv: a 'b c'\ndetail:\n  one\n  two\n"
        "metrics:\n  output_throughput: 94.0 tok/s\nphases:\n  name load_weights, progress 1\nconfig:\n  steps: 2\n"
    )
