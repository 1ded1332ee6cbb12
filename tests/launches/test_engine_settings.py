"""The `server_args=` line as a dictionary."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.launches.reading import LOGS

from sitrepd.launches.engines._settings import parse_server_args

SECRET = "Zx9" * 12


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("ServerArgs(a='x, y=1', b=None, c=0.5, d=[1, 2])", {"a": "x, y=1", "b": None, "c": 0.5, "d": [1, 2]}),
        ("ServerArgs(e={'k': (1, 2)})", {"e": {"k": [1, 2]}}),
        ("{'a': 'it\\'s', 'b': True, 'c': {'d': {'e': -1}}}", {"a": "it's", "b": True, "c": {"d": {"e": -1}}}),
        ("ServerArgs(mode=<Mode.NULL: 'null'>, port=1)", {"mode": "<Mode.NULL: 'null'>", "port": 1}),
        ("ServerArgs(f=<function f at 0x7f, x=1>)", {"f": "<function f at 0x7f, x=1>"}),
        ("ServerArgs(c=Graphs(decode=Phase(bs=[1], x='y')))", {"c": {"decode": {"bs": [1], "x": "y"}}}),
        ("{'whole': 1, 'cut': 'abc", {"whole": 1, "cut": "'abc"}),
        ("{}", {}),
        ("ServerArgs()", {}),
        ("nothing", {}),
        ("", {}),
    ],
)
def test_values(text: str, wanted: dict[str, object]) -> None:
    assert parse_server_args(text) == wanted


@pytest.mark.parametrize("form", ["{{'{0}': {1!r}, 'port': 1}}", "ServerArgs({0}={1!r}, port=1)"])
@pytest.mark.parametrize("name", ["api_key", "admin_api_key", "hf_token", "ssl_keyfile_password", "client_secret"])
def test_secrets_are_left_out(form: str, name: str) -> None:
    assert parse_server_args(form.format(name, SECRET)) == {"port": 1}
    assert parse_server_args(form.format(name, None)) == {name: None, "port": 1}


def test_secrets_inside_values_are_replaced() -> None:
    text = f"{{'launch_command': 'sglang serve --api-key {SECRET} --port 1', 'extra': {{'hf_token': {SECRET!r}}}}}"
    assert SECRET not in json.dumps(parse_server_args(text))


def test_names_with_token_in_them_that_are_no_secrets_stay() -> None:
    text = (
        "{'tokenizer_path': '/m', 'max_total_tokens': 8192, 'speculative_token_map': '/m/map.pt', 'num_tokens': [4, 8]}"
    )
    assert set(parse_server_args(text)) == {"tokenizer_path", "max_total_tokens", "speculative_token_map", "num_tokens"}


def test_a_recorded_line_is_read_whole() -> None:
    data = (LOGS / "cpu-0.5.23-success.log").read_text()
    line = next(line for line in data.splitlines() if "server_args=" in line)
    settings = parse_server_args(line.partition("server_args=")[2])
    assert settings["speculative_num_steps"] is None
    assert json.loads(json.dumps(settings)) == settings


@given(st.text(alphabet="abK=:,'\"\\()[]{}<> 1.", max_size=60))
def test_no_text_breaks_it(text: str) -> None:
    json.dumps(parse_server_args("ServerArgs(" + text))
    json.dumps(parse_server_args("{" + text))
