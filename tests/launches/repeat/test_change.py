"""Flags, variables and logs changed in command lines: what bash makes of the changed line is what was meant."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.launches.fakes import Box

from sitrepd.errors import InvalidFact
from sitrepd.launches.repeat.change import change_argv, change_line
from sitrepd.launches.repeat.words import Change

LINE = """cd /srv && NCCL_PROTO=LL nohup python -m sglang.launch_server \\
    --model-path "$MODEL" --tp 8 \\
    --speculative-num-steps=3 --trust-remote-code --json '{"a": 1}' > serve.log 2>&1 &"""


def changed(line: str, **change: Any) -> str:
    return change_line(line, {"MODEL": "/m", "FLAGS": "--a 1 --b 2"}, "/srv", Change(**change))


@pytest.mark.parametrize(
    ("change", "before", "after"),
    [
        ({"set": {"tp-size": ["4"]}}, "--tp 8", "--tp 4"),
        ({"set": {"--tensor_parallel_size": ["4"]}}, "--tp 8", "--tp 4"),
        ({"set": {"speculative_num_steps": ["2"]}}, "num-steps=3", "num-steps=2"),
        ({"set": {"model-path": ["/a b"]}}, '"$MODEL"', "'/a b'"),
        ({"set": {"json": ['{"b": 2}']}}, """'{"a": 1}'""", """'{"b": 2}'"""),
        ({"set": {"context_length": ["4096"]}}, """'{"a": 1}' >""", """'{"a": 1}' --context-length 4096 >"""),
        ({"set": {"enable-metrics": []}}, """'{"a": 1}' >""", """'{"a": 1}' --enable-metrics >"""),
        ({"set": {"cuda-graph-bs": ["1", "2"]}}, """'{"a": 1}' >""", """'{"a": 1}' --cuda-graph-bs 1 2 >"""),
        ({"set": {"trust-remote-code": []}}, "", ""),
        ({"unset": ["tp"]}, " --tp 8", ""),
        ({"unset": ["speculative-num-steps"]}, " \\\n    --speculative-num-steps=3", ""),
        ({"unset": ["trust-remote-code"]}, " --trust-remote-code", ""),
        ({"env": {"NCCL_PROTO": "Simple x"}}, "NCCL_PROTO=LL", "NCCL_PROTO='Simple x'"),
        ({"env": {"NEW": "1"}}, "NCCL_PROTO=LL nohup", "NEW=1 NCCL_PROTO=LL nohup"),
        ({"log_path": "/tmp/other log"}, "> serve.log", "> '/tmp/other log'"),
    ],
)
def test_one_thing_changes_and_all_else_stays_to_the_letter(change: dict[str, Any], before: str, after: str) -> None:
    assert before in LINE
    assert changed(LINE, **change) == LINE.replace(before, after, 1)


@pytest.mark.parametrize(
    ("line", "change", "wanted"),
    [
        ("python -m s $FLAGS --a 3", {"set": {"a": ["4"]}}, "python -m s $FLAGS --a 4"),
        ("python -m s --c $FLAGS", {"set": {"b": ["4"]}}, "python -m s --c $FLAGS --b 4"),
        ("python -m s --tp 1 --tp 8", {"set": {"tp": ["2"]}}, "python -m s --tp 1 --tp 2"),
        ("python -m s --tp 1 --x --tp 8", {"unset": ["tp"]}, "python -m s --x"),
        ("python -m s --seed -1 --x", {"set": {"seed": ["5"]}}, "python -m s --seed 5 --x"),
        ("python -m s --bs 1 2 4 --x", {"set": {"bs": ["8"]}}, "python -m s --bs 8 --x"),
        ("bash -c 'python -m s --tp 8'", {"set": {"tp": ["4"]}}, "bash -c 'python -m s --tp 4'"),
        ("env A=1 python -m s", {"env": {"A": "2"}}, "env A=2 python -m s"),
        ("export A=1; python -m s --x", {"env": {"A": "2"}}, "export A=2; python -m s --x"),
        ("cd /srv; python -m s 2>&1 | tee a.log", {"log_path": "b.log"}, "cd /srv; python -m s 2>&1 | tee b.log"),
        ("python -m ünïcode --tp 8 > ö.log", {"set": {"tp": ["4"]}}, "python -m ünïcode --tp 4 > ö.log"),
        ("python -m s > a.log --tp 8", {"set": {"x": ["1"]}}, "python -m s > a.log --tp 8 --x 1"),
    ],
)
def test_lines_as_people_write_them(line: str, change: dict[str, Any], wanted: str) -> None:
    assert changed(line, **change) == wanted


def test_what_cannot_be_changed_is_refused_with_what_is_there() -> None:
    with pytest.raises(InvalidFact, match=r"no --nothing to leave out.*--tp"):
        changed(LINE, unset=["nothing"])
    with pytest.raises(InvalidFact, match="variables of the line around it"):
        changed('bash -c "python -m s --tp $TP"', set={"tp": ["1"]})


@pytest.mark.parametrize("name", ["env:NCCL_DEBUG", "NCCL DEBUG", "", "--", "-5", "a;b"])
def test_what_is_no_flag_is_refused(name: str) -> None:
    for change in (Change(set={name: ["1"]}), Change(unset=[name])):
        with pytest.raises(InvalidFact, match="no name of a flag"):
            change_argv(["server", "--port", "1"], change)


def test_words_are_changed_as_words() -> None:
    argv = ["python", "-m", "s", "--model", "/a b", "--tp=8", "--bs", "1", "2"]
    change = Change({"tp": ["4"], "bs": ["8"], "x": ["1 2"], "model-path": ["/c"]}, env={"A": "1"})
    assert change_argv(argv, change) == [*argv[:4], "/c", "--tp=4", "--bs", "8", "--x", "1 2"]
    inner = change_argv(["bash", "-lc", "exec python -m s --tp 8"], Change({"tp": ["4"]}))
    assert inner == ["bash", "-lc", "exec python -m s --tp 4"]


VALUES = ["plain", "two words", "it's", '"', "$HOME", "`id`", "a;b", "*", "", "\\", "é", "--x"]


def test_bash_gives_the_program_the_values_that_were_meant(tmp_path: Path) -> None:
    box = Box(tmp_path / "box")
    box.reset()
    flags = {f"v{number}": [value] for number, value in enumerate(VALUES) if value != "--x"}
    line = change_line(
        "A=old nohup python -m srv --v0 old --v2='old' > out.log 2>&1 &", box.env, str(box.work),
        Change(flags, env={"A": "it's $HOME", "B": 'say "x"'}),
    )  # fmt: skip
    seen = box.by_bash(line, ())
    assert (seen.env["A"], seen.env["B"]) == ("it's $HOME", 'say "x"')
    told = shlex.join(seen.argv)
    for name, (value,) in flags.items():
        assert f"--{name} {shlex.quote(value)}" in told or shlex.quote(f"--{name}={value}") in told
