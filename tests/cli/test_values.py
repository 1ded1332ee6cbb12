"""Values as they are typed."""

from __future__ import annotations

from decimal import Decimal

import pytest
import typer

from sitrepd.cli import values
from sitrepd.cli.client import dump
from sitrepd.cli.connection import Target, parse_url
from sitrepd.cli.init import with_file_name
from sitrepd.cli.launches import command_of
from sitrepd.errors import SitrepError


def test_numbers_keep_their_decimals() -> None:
    name, measure = values.metric("output_throughput=94.00:tok/s:higher")
    assert (name, dump(measure)) == ("output_throughput", b'{"value": 94.00, "unit": "tok/s", "better": "higher"}')
    assert values.metric("accept_rate=0.47") == ("accept_rate", {"value": Decimal("0.47")})
    assert values.number("4700") == 4700
    assert isinstance(values.number("4700"), int)


@pytest.mark.parametrize("told", ["nan", "inf", "-Infinity", "1,5", "", "0x10"])
def test_what_is_no_number_is_refused(told: str) -> None:
    with pytest.raises(typer.BadParameter, match="no number"):
        values.number(told)


def test_pairs_take_json_where_it_is_some() -> None:
    told = ["steps=2", "algorithm=EAGLE3", "draft=null", "flags=[1, 2]", "version=0.5.16", "rate=NaN", "url=a=b"]
    assert values.pairs(told) == {
        "steps": 2, "algorithm": "EAGLE3", "draft": None, "flags": [1, 2], "version": "0.5.16", "rate": "NaN",
        "url": "a=b",
    }  # fmt: skip
    with pytest.raises(typer.BadParameter, match="NAME=VALUE"):
        values.pairs(["steps"])


def test_a_time_without_an_offset_is_local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    import time

    time.tzset()
    try:
        assert values.moment("2026-03-01T14:05:09") == "2026-03-01T14:05:09+01:00"
        assert values.moment("2026-03-01T14:05:09Z") == "2026-03-01T14:05:09+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()
    with pytest.raises(typer.BadParameter, match="no time"):
        values.moment("yesterday")


def test_lists_of_measures() -> None:
    assert values.phases(["verify:calls=400,mean_ms=20.5"]) == [
        {"name": "verify", "calls": 400, "mean_ms": Decimal("20.5")}
    ]
    assert values.points(["epoch=4,accept_rate=0.47,loss=1.2:nats"]) == [
        {
            "epoch": 4,
            "metrics": {"accept_rate": {"value": Decimal("0.47")}, "loss": {"value": Decimal("1.2"), "unit": "nats"}},
        }
    ]
    assert values.samples(["ttft_ms=1.5, 1.70"]) == {"ttft_ms": [Decimal("1.5"), Decimal("1.70")]}
    assert [gpu["name"] for gpu in values.gpus(["2xNVIDIA H200", "NVIDIA A100 x8"])] == [
        "NVIDIA H200", "NVIDIA H200", "NVIDIA A100 x8",
    ]  # fmt: skip


def test_a_url_names_a_door() -> None:
    assert str(parse_url("http://box:8791/")) == "http://box:8791"
    assert str(parse_url("https://[::1]:443/sitrep/")) == "https://[::1]:443/sitrep"
    assert str(parse_url("unix:///run/sitrep.sock")) == "the socket /run/sitrep.sock"
    assert parse_url("https://box") == Target(scheme="https", host="box")


@pytest.mark.parametrize("url", ["box:8791", "ftp://box", "unix://relative", "http://box:port", "http://"])
def test_what_is_no_door_is_refused(url: str) -> None:
    with pytest.raises(SitrepError, match="SITREP_URL"):
        parse_url(url)


def test_file_may_stand_alone() -> None:
    assert with_file_name(["--file"]) == ["--file=SITREP.md"]
    assert with_file_name(["--file", "--move"]) == ["--file=SITREP.md", "--move"]
    assert with_file_name(["--file", "work"]) == ["--file=SITREP.md", "work"]
    assert with_file_name(["--file", "notes/now.md", "work"]) == ["--file", "notes/now.md", "work"]
    assert with_file_name(["work", "--file=a.md"]) == ["work", "--file=a.md"]


def test_one_argument_is_a_shell_line_and_several_are_words() -> None:
    assert command_of(["FOO=1 nohup python -m x > log 2>&1 &"]) == {"command": "FOO=1 nohup python -m x > log 2>&1 &"}
    assert command_of(["python", "-m", "x y"]) == {"argv": ["python", "-m", "x y"]}
    with pytest.raises(typer.BadParameter, match="Options come before the command"):
        command_of(["python -m x", "--watch"])
