from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.launches.fakes import Box, Seen, until

from sitrepd.launches.command import (
    CommandError,
    ShellCommand,
    check_executable,
    flags_text,
    parse_command,
    runnable_script,
)
from sitrepd.launches.launchers.base import LaunchRequest
from sitrepd.launches.launchers.local import LocalLauncher

REFERENCE = (
    "NCCL_PROTO=LL NCCL_ALGO=Ring NCCL_P2P_LEVEL=SYS NCCL_MAX_NCHANNELS=16 NCCL_BUFFSIZE=16777216 NCCL_NTHREADS=512 "
    "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 nohup ~/ml-env/bin/python3 -m sglang.launch_server --model-path "
    "/shared/kimi-k2.5-int4 --trust-remote-code --tp-size 8 --mem-fraction-static 0.88 --host 0.0.0.0 --port 8000 "
    "--num-continuous-decode-steps 4 --disable-custom-all-reduce --speculative-algorithm EAGLE3 "
    "--speculative-draft-model-path /data/eagle3/output_100k_sglang/4 --speculative-eagle-topk 1 "
    "--speculative-num-draft-tokens 4 --speculative-num-steps 3 > logs/sglang_eagle3_nccl_3step.log 2>&1 &"
)


@dataclass(frozen=True)
class Case:
    """A pasted text and what is expected of it; paths are relative to the box's work folder, "{home}" is its home."""

    text: str
    argv: list[str]
    log: str | None = None
    err: str | None = None
    both: str | None = None
    append: bool = False
    env: dict[str, str] = field(default_factory=dict)
    cwd: str = "."
    execs: bool = True
    raw: frozenset[int] = frozenset()
    output: bool = True
    """Whether what is not redirected is the same as at a terminal (tee and echo write there too)."""
    understood: bool = True


CASES = {
    "reference": Case(
        REFERENCE,
        ["{home}/ml-env/bin/python3", *REFERENCE.split("python3 ")[1].split(" > ")[0].split()],
        both="logs/sglang_eagle3_nccl_3step.log",
        env={"NCCL_PROTO": "LL", "NCCL_BUFFSIZE": "16777216", "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1"},
    ),
    "bare": Case("python -m s", ["python", "-m", "s"]),
    "background": Case("python -m s &", ["python", "-m", "s"]),
    "background without blank": Case("python -m s&", ["python", "-m", "s"]),
    "truncate": Case("python a > out.log", ["python", "a"], log="out.log"),
    "append": Case("python a >> out.log 2>&1", ["python", "a"], both="out.log", append=True),
    "both": Case("python a &> out.log &", ["python", "a"], both="out.log"),
    "both appended": Case("python a &>> out.log &", ["python", "a"], both="out.log", append=True),
    "two files": Case("python a > o.log 2> e.log < /dev/null &", ["python", "a"], log="o.log", err="e.log"),
    "only errors": Case("python a 2> e.log", ["python", "a"], err="e.log"),
    "wrong order": Case("python a 2>&1 > o.log", ["python", "a"], log="o.log"),
    "csh style": Case("python a >& o.log", ["python", "a"], both="o.log"),
    "swapped": Case("python a 3>&1 1>&2 2>&3 > o.log", ["python", "a"], log="o.log"),
    "clobber": Case("python a >| o.log 2>&1", ["python", "a"], both="o.log"),
    "redirection first": Case("> o.log 2>&1 python a --b", ["python", "a", "--b"], both="o.log"),
    "redirection within": Case("python a > o.log --b c 2>&1 --d", ["python", "a", "--b", "c", "--d"], both="o.log"),
    "errors thrown away": Case("python a > o.log 2>/dev/null", ["python", "a"], log="o.log", err="/dev/null"),
    "errors closed": Case("python a > o.log 2>&-", ["python", "a"], log="o.log", err="/dev/null"),
    "tee": Case("python a 2>&1 | tee o.log", ["python", "a"], both="o.log", output=False),
    "tee in background": Case(
        "nohup python a 2>&1 | tee -a o.log &", ["python", "a"], both="o.log", append=True, output=False
    ),
    "tee of all": Case("python a |& tee o.log", ["python", "a"], both="o.log", output=False),
    "tee quiet": Case(
        "A=1 python a 2>&1 | tee 'o x.log' > /dev/null &", ["python", "a"], both="o x.log", output=False, env={"A": "1"}
    ),
    "tee two files": Case("python a 2>&1 | tee o.log p.log", ["python", "a"], log="|", execs=False),
    "grep": Case("python a 2>&1 | grep --line-buffered std > o.log", ["python", "a"], both="o.log", execs=False),
    "nohup": Case("nohup python a > o.log 2>&1 &", ["python", "a"], both="o.log"),
    "setsid": Case("setsid nohup python a > o.log 2>&1 < /dev/null &", ["python", "a"], both="o.log"),
    "setsid fork": Case("setsid -f python a > o.log 2>&1", ["python", "a"], both="o.log"),
    "env": Case("env A=1 B='x y' python a", ["python", "a"], env={"A": "1", "B": "x y"}),
    "env unset": Case("env -u FLAGS A=1 nohup python a &", ["python", "a"], env={"A": "1"}),
    "env empty": Case('env -i PATH="$PATH" python a', ["python", "a"], env={"PATH": "{path}"}),
    "assignments": Case(
        'A=1 B="$MODEL" C=~/x D=$A python a',
        ["python", "a"],
        env={"A": "1", "B": "/models/kimi k2", "C": "{home}/x", "D": "1"},
    ),
    "append to a variable": Case("PATH+=:/x A= python a", ["python", "a"], env={"PATH": "{path}:/x", "A": ""}),
    "export": Case("export A=1 B=2; C=3; python a $C", ["python", "a", "3"], env={"A": "1", "B": "2"}),
    "export after": Case("A=1; export A; python a", ["python", "a"], env={"A": "1"}),
    "export lines": Case(
        "export A=1\nexport B=$A\n\npython a \\\n  --b \\\n  --c\n",
        ["python", "a", "--b", "--c"],
        env={"A": "1", "B": "1"},
    ),
    "set allexport": Case("set -a; B=2; set +a; python a", ["python", "a"], env={"B": "2"}),
    "cd": Case("cd 'sub dir' && python a > o.log 2>&1 &", ["python", "a"], both="sub dir/o.log", cwd="sub dir"),
    "cd and back": Case("cd 'sub dir'; cd ..; python a", ["python", "a"]),
    "cd or die": Case('cd "sub dir" || exit 1; python a', ["python", "a"], cwd="sub dir"),
    "subshell": Case("(cd 'sub dir' && python a) > o.log 2>&1 &", ["python", "a"], both="o.log", cwd="sub dir"),
    "subshell background": Case("(python a > o.log 2>&1 &)", ["python", "a"], both="o.log"),
    "group": Case("{ cd 'sub dir'; python a; } > o.log 2>&1 &", ["python", "a"], both="o.log", cwd="sub dir"),
    "venv": Case("source venv/bin/activate && python a &", ["python", "a"]),
    "source": Case(". ./settings.sh && python a $MODEL", ["python", "a", "$MODEL"], raw=frozenset([2])),
    "exec": Case("exec python a > o.log", ["python", "a"], log="o.log"),
    "quotes": Case(
        """python 'a b' "c \\"d\\" $MODEL" e\\ f ''""", ["python", "a b", 'c "d" /models/kimi k2', "e f", ""]
    ),
    "json": Case(
        """python --args '{"a": {"b": [1, 2]}}' --x {}""", ["python", "--args", '{"a": {"b": [1, 2]}}', "--x", "{}"]
    ),
    "ansi quotes": Case(r"python $'a\tb\'c\x41\u00e9\n'", ["python", "a\tb'cAé\n"]),
    "split": Case("python $FLAGS $EMPTY x$EMPTY $NOT_SET", ["python", "--tp-size", "8", "--trust-remote-code", "x"]),
    "quoted variable": Case(
        'python "$FLAGS" "$EMPTY" $MODEL', ["python", "--tp-size 8  --trust-remote-code", "", "/models/kimi", "k2"]
    ),
    "defaults": Case(
        'python ${PORT:-30000} ${EMPTY:-x} ${EMPTY-x} ${HOME:+set} "${MODEL}"',
        ["python", "30000", "x", "set", "/models/kimi k2"],
    ),
    "tilde": Case(
        "python ~ ~/x --p=~/y a=~/z '~' x~", ["python", "{home}", "{home}/x", "--p=~/y", "a={home}/z", "~", "x~"]
    ),
    "glob": Case("python glob?.json *.nothing '*.json'", ["python", "glob1.json", "glob2.json", "*.nothing", "*.json"]),
    "substitution": Case(
        'python "$(echo 3)" $((1 + 2)) b', ["python", '"$(echo 3)"', "$((1 + 2))", "b"], raw=frozenset([1, 2])
    ),
    "braces": Case("python {a,b} c", ["python", "{a,b}", "c"], raw=frozenset([1])),
    "dash": Case("python - --x -", ["python", "-", "--x", "-"]),
    "comments": Case("# start it\npython a --b#c # the rest\n", ["python", "a", "--b#c"]),
    "carriage returns": Case("python a \\\r\n  --b\r\n", ["python", "a", "--b"]),
    "program in a variable": Case("PY=python; $PY a", ["python", "a"]),
    "pid file": Case("nohup python a > o.log 2>&1 & echo $! > s.pid", ["python", "a"], both="o.log"),
    "disown": Case("python a > o.log 2>&1 & disown; echo started", ["python", "a"], both="o.log", output=False),
    "and then": Case("python a > o.log; echo done > after.txt", ["python", "a"], log="o.log", execs=False),
    "wait in the text": Case("python a > o.log &\nP=$!; echo $P > s.pid", ["python", "a"], log="o.log", execs=False),
    "negated": Case("! python a", ["python", "a"], execs=False),
    "trap": Case("trap 'echo bye > after.txt' EXIT; python a", ["python", "a"], execs=False),
    "makes its folder": Case("mkdir -p new && python a > new/o.log 2>&1 &", ["python", "a"], both="new/o.log"),
    "process substitution": Case("python a > >(cat > o.log) 2>&1; sleep 0.1", ["python", "a"], log="", execs=False),
    "here-document": Case("python - <<'EOF' &\nprint(1)\nEOF\n", [], understood=False, execs=False, output=False),
    "here-string": Case("python a <<< 'x y'", ["python", "a"]),
    "if before": Case('if [ -n "$HOME" ]; then export A=1; fi; python a $A', ["python", "a", "$A"], raw=frozenset([2])),
    "two in a chain": Case("true && python a --x || echo failed", ["python", "a", "--x"], execs=False),
    "sglang serve": Case(
        "CUDA_VISIBLE_DEVICES=0,1 sglang serve /m --port 1 |& tee s.log",
        ["sglang", "serve", "/m", "--port", "1"],
        both="s.log",
        env={"CUDA_VISIBLE_DEVICES": "0,1"},
        output=False,
    ),
    "translated quotes": Case('python $"a $MODEL"', ["python", "a /models/kimi k2"]),
    "lone braces": Case("python { } {a} {}", ["python", "{", "}", "{a}", "{}"]),
    "env in a script": Case("set -euo pipefail; export A=${A:-5}; python a $A", ["python", "a", "5"], env={"A": "5"}),
    "wrapped twice": Case(
        "setsid env A=1 setsid nohup python a > o.log &", ["python", "a"], log="o.log", env={"A": "1"}
    ),
    "escaped program": Case("\\python a", ["python", "a"]),
    "odd words": Case(
        "python [x] =c !x ^ % http://h:1/?a=b#c x^y",
        ["python", "[x]", "=c", "!x", "^", "%", "http://h:1/?a=b#c", "x^y"],
    ),
    "here-document before": Case("cat <<EOF > conf\na: 1\nEOF\npython a > o.log", ["python", "a"], log="o.log"),
    "non-ASCII": Case("python 'ü é' --名前 模型 > 'lög.txt' &", ["python", "ü é", "--名前", "模型"], log="lög.txt"),
}


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Box:
    return Box(tmp_path_factory.mktemp("box") / "root")


def _filled(text: str, box: Box) -> str:
    return text.replace("{home}", str(box.home)).replace("{work}", str(box.work)).replace("{path}", box.env["PATH"])


def _at(box: Box, path: str | None) -> str | None:
    return path and (path if path in ("|", "/dev/null") else str(box.work / path))


@pytest.mark.parametrize("name", CASES)
def test_it_is_read_as_bash_runs_it(name: str, box: Box) -> None:
    case = CASES[name]
    box.reset()
    command = parse_command(case.text, box.env, str(box.work))
    check_executable(command)
    assert (command.understood, command.execs) == (case.understood, case.execs)
    _compare_reading(command, case, box)
    by_bash = box.by_bash(case.text.replace("\r\n", "\n"), _awaited(case))
    if case.understood:
        _compare_with_bash(command, case, by_bash)
    box.reset()
    assert _launched(case, box) == _without_output(by_bash, case)


def _compare_reading(command: ShellCommand, case: Case, box: Box) -> None:
    assert list(command.argv) == [_filled(word, box) for word in case.argv]
    assert command.raw_words == case.raw
    if case.log not in ("|", ""):
        assert command.log_path == _at(box, case.log or case.both)
        assert command.stderr_path == _at(box, case.err or case.both)
        assert command.append == case.append
    wanted = {key: _filled(value, box) for key, value in case.env.items()}
    assert {key: command.environment[key] for key in case.env} == wanted
    assert command.cwd == (str((box.work / case.cwd).resolve()) if case.understood else None)


def _compare_with_bash(command: ShellCommand, case: Case, seen: Seen) -> None:
    known = [word for number, word in enumerate(command.argv) if number not in case.raw][1:]
    assert [word for word in seen.argv if word in known] == known
    if not case.raw:
        assert seen.argv == list(command.argv[1:])
    assert seen.cwd == command.cwd
    env = {key: value for key, value in command.environment.items() if value is not None}
    assert {key: seen.env.get(key) for key in env} == env


def _awaited(case: Case) -> tuple[str, ...]:
    return ("to stdout",) if case.err == "/dev/null" else ("to stdout", "to stderr")


def _without_output(seen, case: Case):
    if not case.output:
        seen.files.pop("(not redirected)")
    return seen


def _launched(case: Case, box: Box):
    default = box.root / "default.log"
    request = LaunchRequest(box.root / "state", default, box.work, box.env, command=case.text, umask=0o022)
    launcher = LocalLauncher()
    launched = launcher.launch(request)
    ended = until(lambda: launcher.poll(launched))
    assert ended.known
    return _without_output(box.seen(default.read_text(), _awaited(case)), case)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "nothing to run"),
        ("  \n", 1, 1, "nothing to run"),
        ("# only this\n", 1, 1, "nothing to run"),
        ('python "a', 1, 8, 'The quote " that opens here is never closed'),
        ("python a\npython 'b\n\n", 2, 8, "The quote ' that opens here is never closed"),
        ("python a && && b", 1, 13, "syntax error near unexpected token `&&'"),
        ("python a &&", 2, 1, "syntax error: unexpected end of file"),
        ("python a; done", 1, 11, "syntax error near unexpected token `done'"),
        ("python a & python b &", 1, 12, "A second background job"),
        ("while true; do python a; done", 1, 1, "A loop cannot be the server: put it in a script"),
        ("for i in 1 2; do python a; done &", 1, 1, "A loop cannot be the server"),
        ("if true; then python a; fi", 1, 1, "An if cannot be the server"),
        ("serve() { python a; }; serve", 1, 24, "A function cannot be the server"),
        ("A=1 B=2", 1, 1, "starts no program"),
        ("export A=1", 1, 1, "starts no program"),
        ("cd x &&\nexport A=1", 2, 1, "starts no program"),
        ("nohup > x &", 1, 1, "no program"),
        ("$ python a", 1, 1, "It begins with a prompt"),
        ("(venv) me@box:~/x$ python a", 1, 1, "It begins with a prompt"),
        ("python a \\ \n  --port 1", 2, 3, "A command begins with the flag --port"),
        ("python a # why\n  --port 1", 2, 3, "A command begins with the flag --port"),
        ("python \0a", 1, 8, "A NUL character"),
        ("python \udc80a", 1, 8, "not valid Unicode"),
        ("ü; 'ü", 1, 4, "never closed"),
    ],
)
def test_what_cannot_be_launched_is_said_with_its_place(text: str, line: int, column: int, message: str) -> None:
    with pytest.raises(CommandError) as error:
        parse_command(text, {"PATH": "/usr/bin:/bin"}, "/")
    assert (error.value.line, error.value.column) == (line, column)
    assert message in error.value.message


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("no-such-program a", 1, "No such program: no-such-program; PATH searched: {root}/bin:/usr/bin:/bin."),
        ("A=1 nohup no-such-program a", 11, "No such program: no-such-program"),
        ("PATH=/nowhere python a", 15, "No such program: python; PATH searched: /nowhere."),
        ("./nothing", 1, "No such program: {work}/nothing."),
        ("./settings.sh", 1, "{work}/settings.sh is not executable: chmod +x it."),
        ("./venv", 1, "{work}/venv is a folder, not a program."),
        ("cd nowhere && python a", 4, "No such folder: {work}/nowhere."),
        ("source gone/bin/activate && python a", 8, "No such file: {work}/gone/bin/activate."),
        ("python a > gone/o.log", 12, "The log's folder does not exist: {work}/gone. Create it first"),
        ("python a > logs", 12, "{work}/logs is a folder"),
    ],
)
def test_what_is_missing_is_said_before_the_start(text: str, column: int, message: str, box: Box) -> None:
    box.reset()
    command = parse_command(text, box.env, str(box.work))
    with pytest.raises(CommandError) as error:
        check_executable(command)
    assert error.value.column == column
    assert message.replace("{root}", str(box.root)).replace("{work}", str(box.work)) in error.value.message


@pytest.mark.parametrize(
    "text",
    ["mkdir -p gone && cd gone && python a", "conda activate e && no-such-program", "$(which python) a", "echo hi"],
)
def test_what_only_running_it_tells_is_not_refused(text: str, box: Box) -> None:
    box.reset()
    check_executable(parse_command(text, box.env, str(box.work)))


def test_values_of_kept_variables_stay_out_of_argv(box: Box) -> None:
    env = box.env | {"HF_TOKEN": "hf_secret"}
    text = 'export K=$HF_TOKEN; python --api-key "$HF_TOKEN" --other $K'
    command = parse_command(text, env, str(box.work), keep=lambda name: name == "HF_TOKEN")
    assert command.argv == ("python", "--api-key", '"$HF_TOKEN"', "--other", "$K")
    assert "hf_secret" not in repr(command.environment)


def test_the_prelude_is_told_without_the_server(box: Box) -> None:
    text = "cd 'sub dir' && source ../venv/bin/activate && A=1 python a &"
    assert parse_command(text, box.env, str(box.work)).prelude == "cd 'sub dir' && source ../venv/bin/activate"


def test_an_engine_is_the_server_whatever_else_the_text_does(box: Box) -> None:
    command = parse_command("python watch.py > w.log & python -m sglang.launch_server --port 1", box.env, str(box.work))
    assert command.argv == ("python", "-m", "sglang.launch_server", "--port", "1")
    assert "watch.py > w.log &" in runnable_script(command)


def test_flags_text_is_one_line_that_gives_the_words_back(tmp_path: Path) -> None:
    words = ["python", "a b", "it's", "", "$X", "*", "two\nlines", "tab\t\\'", "ü\x01", "~", '--j={"a":1}']
    line = flags_text(words)
    assert "\n" not in line
    assert list(parse_command(line, {"PATH": "/bin"}, str(tmp_path)).argv) == words
