from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.backfill.projects import EAGLE, FLAGS, SPECULATIVE, log, only_start, read, write


def command_of(folder: Path) -> str | None:
    told = only_start(folder).command
    return told["command"] if told else None


def test_a_script_that_writes_the_log_with_these_settings_is_the_command(tmp_path: Path) -> None:
    write(tmp_path / "logs" / "eagle.log", log(EAGLE))
    write(
        tmp_path / "run.sh",
        "#!/bin/bash\nset -e\nexport MODEL=/models\nexport SGLANG_X=1\n# the server\n"
        f"nohup python -m sglang.launch_server \\\n  {FLAGS.replace('/models/target', '$MODEL/target')} \\\n"
        f"  {SPECULATIVE.replace('/models/draft', '${MODEL}/draft')} > logs/eagle.log 2>&1 &\n",
    )
    start = only_start(tmp_path)
    assert start.command is not None
    assert start.command["argv"] == f"python -m sglang.launch_server {FLAGS}{SPECULATIVE}".split()
    assert start.command["env"]["SGLANG_X"] == "1"
    assert start.command["cwd"] == str(tmp_path)
    assert any("run.sh, line 6" in one for one in start.warnings)


def test_a_loop_over_steps_gives_each_log_its_own_command(tmp_path: Path) -> None:
    two = log(EAGLE).replace("speculative_num_steps=3", "speculative_num_steps=2").replace("253890220", "253890221")
    write(tmp_path / "s2.log", two)
    write(tmp_path / "s3.log", log(EAGLE))
    flags = FLAGS + SPECULATIVE.replace("num-steps 3", "num-steps $s").replace("tokens 4", "tokens $((s+1))")
    write(tmp_path / "sweep.sh", f"for s in 2 3; do\n  python -m sglang.launch_server {flags} > s$s.log 2>&1\ndone\n")
    starts = read(tmp_path).starts
    assert all(start.command is None for start in starts), "arithmetic is not known"
    flags = flags.replace(" --speculative-num-draft-tokens $((s+1))", "")
    write(tmp_path / "sweep.sh", f"for s in 2 3; do\n  python -m sglang.launch_server {flags} > s$s.log 2>&1\ndone\n")
    told = {
        start.settings["speculative_num_steps"]: (start.command or {})["command"] for start in read(tmp_path).starts
    }
    assert "--speculative-num-steps 2" in told[2]
    assert "--speculative-num-steps 3" in told[3]


@pytest.mark.parametrize(
    "script",
    [
        f"python -m sglang.launch_server {FLAGS}{SPECULATIVE} > other.log 2>&1 &\n",
        f"python -m sglang.launch_server {FLAGS}{SPECULATIVE}\n",
        f"python -m sglang.launch_server {FLAGS}{SPECULATIVE.replace('steps 3', 'steps 5')} > eagle.log 2>&1\n",
        f"python -m sglang.launch_server {FLAGS.replace('0.5', '0.8')}{SPECULATIVE} > eagle.log 2>&1\n",
        f"python -m sglang.launch_server {FLAGS} > eagle.log 2>&1\n",
        f"python -m sglang.launch_server {FLAGS}{SPECULATIVE} $EXTRA > eagle.log 2>&1\n",
        f"python -m sglang.launch_server {FLAGS}{SPECULATIVE} $1 > eagle.log 2>&1\n",
        f"# python -m sglang.launch_server {FLAGS}{SPECULATIVE} > eagle.log 2>&1\n",
        "vllm serve /models/target --port 8000 > eagle.log 2>&1\n",
    ],
    ids=[
        "other log",
        "no log",
        "other steps",
        "other share",
        "none speculative",
        "unknown",
        "argument",
        "comment",
        "engine",
    ],
)
def test_what_is_not_certain_is_not_recorded(tmp_path: Path, script: str) -> None:
    write(tmp_path / "eagle.log", log(EAGLE))
    write(tmp_path / "run.sh", script)
    assert command_of(tmp_path) is None


def test_two_different_commands_for_one_log_are_none(tmp_path: Path) -> None:
    write(tmp_path / "eagle.log", log(EAGLE))
    for name, more in (("a.sh", ""), ("b.sh", " --log-requests")):
        write(tmp_path / name, f"python -m sglang.launch_server {FLAGS}{SPECULATIVE}{more} &> eagle.log\n")
    found = command_of(tmp_path)
    assert found is None or "--log-requests" not in found
    write(tmp_path / "b.sh", f"python3 -m sglang.launch_server {FLAGS}{SPECULATIVE} &> eagle.log\n")
    assert command_of(tmp_path) is None


def test_the_trace_of_a_shell_is_certain(tmp_path: Path) -> None:
    line = f"+ python -m sglang.launch_server {FLAGS}{SPECULATIVE}"
    write(tmp_path / "eagle.log", f"+ cd /srv\n{line}\n{log(EAGLE)}")
    assert command_of(tmp_path) == line.removeprefix("+ ")


def test_a_log_without_settings_wants_a_script_that_is_older(tmp_path: Path) -> None:
    log_text = log("h200-0.5.16-fail-context-len")
    write(tmp_path / "f.log", log_text)
    script = write(
        tmp_path / "run.sh", "python -m sglang.launch_server --model-path /m --context-length 131072 &> f.log\n"
    )
    assert command_of(tmp_path) is None, "the script was written after the log's last line"
    import os

    os.utime(script, (1, 1))
    assert (command_of(tmp_path) or "").endswith("--context-length 131072")
    assert time.time() > 1


def test_a_note_with_a_nohup_line_counts_as_a_script_does(tmp_path: Path) -> None:
    write(tmp_path / "eagle.log", log(EAGLE))
    write(
        tmp_path / "NOTES.md",
        f"# how\n\n```sh\n$ nohup python -m sglang.launch_server {FLAGS}{SPECULATIVE} > eagle.log 2>&1 &\n```\n",
    )
    assert (command_of(tmp_path) or "").startswith("python -m sglang.launch_server --model-path /models/target")


def test_secrets_of_a_script_are_references(tmp_path: Path) -> None:
    token = "hf_" + "aB3dE5gH7j" * 4
    write(tmp_path / "eagle.log", log(EAGLE))
    write(
        tmp_path / "r.sh",
        f"export HF_TOKEN={token}\npython -m sglang.launch_server {FLAGS}{SPECULATIVE} &> eagle.log\n",
    )
    start = only_start(tmp_path)
    assert token not in str(start.command)
    assert "${HF_TOKEN}" in str(start.command)
