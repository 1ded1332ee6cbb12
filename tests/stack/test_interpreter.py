from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.stack.conftest import Environment, make_environment

from sitrepd.stack.interpreter import find_interpreter, interpreter_of

MODULE = ["-m", "sglang.launch_server", "--model-path", "/models/kimi"]


@pytest.fixture
def env(venv: Environment) -> dict[str, str]:
    return {"PATH": f"{venv.prefix}/bin:/usr/bin:/bin", "HOME": "/home/nobody"}


@pytest.mark.parametrize(
    "wrapper",
    [
        [],
        ["nohup"],
        ["numactl", "-m", "0", "--cpunodebind=0"],
        ["taskset", "-c", "0-7"],
        ["nohup", "nice", "-n", "5", "numactl", "--interleave", "all"],
        ["env", "SGLANG_X=1", "-u", "HTTP_PROXY"],
        ["timeout", "-k", "5", "7200"],
        ["stdbuf", "-oL"],
        ["sudo", "-E"],
        ["nsys", "profile", "-o", "report", "-t", "cuda,nvtx"],
        ["setsid", "exec"],
    ],
)
def test_wrappers_are_looked_through(venv: Environment, env, tmp_path, wrapper: list[str]):
    assert interpreter_of([*wrapper, "python", *MODULE], env, tmp_path) == venv.python
    assert interpreter_of([*wrapper, venv.python, *MODULE], {}, tmp_path) == venv.python


def test_a_relative_path_is_of_the_working_directory(venv: Environment, env):
    assert interpreter_of(["bin/python", *MODULE], env, venv.prefix) == venv.python
    assert interpreter_of(["../bin/python", *MODULE], env, venv.prefix / "lib") == venv.python


def test_a_link_is_not_followed(venv: Environment, env, tmp_path):
    assert Path(venv.python).is_symlink()
    assert interpreter_of([venv.python], env, tmp_path) == venv.python


@pytest.mark.parametrize(
    "head",
    [
        "#!{python}\nimport sglang\n",
        "#!{python} -sP\nimport sglang\n",
        "#!/usr/bin/env python\n",
        "#!/usr/bin/env -S python -u\n",
        "#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\nimport sglang\n",
        "#!/bin/sh\n'''exec' {python} \"$0\" \"$@\"\n' '''\nimport sglang\n",
        "#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python' \"$0\" \"$@\"\n' '''\n",
    ],
)
def test_a_console_script_is_known_by_its_first_line(venv: Environment, env, tmp_path, head: str):
    script = venv.script("sglang", head.format(python=venv.python))
    for argv in (["sglang", "serve"], [script, "serve"], ["nohup", "numactl", "-m", "0", "sglang", "serve"]):
        found = find_interpreter(argv, env, tmp_path)
        assert found.path == venv.python
        assert found.first_path == (None if "-sP" in head else f"{venv.prefix}/bin")


def test_a_shim_asks_the_shim_beside_it(tmp_path):
    shims = tmp_path / "shims"
    shims.mkdir()
    for name in ("python", "sglang"):
        (shims / name).write_text('#!/usr/bin/env bash\nexec pyenv exec "${0##*/}" "$@"\n')
        (shims / name).chmod(0o755)
    assert interpreter_of(["sglang", "serve"], {"PATH": str(shims)}, tmp_path) == f"{shims}/python"


@pytest.mark.parametrize(
    "text",
    [
        "source {prefix}/bin/activate && python -m sglang.launch_server > log 2>&1 &",
        ". {prefix}/bin/activate; exec python -m sglang.launch_server",
        "cd {prefix} && CUDA_VISIBLE_DEVICES=0,1 nohup bin/python -m sglang.launch_server | tee log",
        "export PATH={prefix}/bin:$PATH\nmkdir -p logs\npython \\\n  -m sglang.launch_server",
        "ROOT={prefix}\n# start it\nif true; then ${{ROOT}}/bin/python -m x; fi",
        "(cd / && {prefix}/bin/python -m x)",
        "echo it\\'s 'half\nsource ~/bin/activate; python -m x",
    ],
)
def test_shell_texts_and_scripts_are_read(venv: Environment, tmp_path, text: str):
    plain = {"PATH": "/usr/bin:/bin", "HOME": str(venv.prefix)}
    filled = text.format(prefix=venv.prefix)
    script = tmp_path / "serve.sh"
    script.write_text("#!/bin/bash\nset -euo pipefail\n" + filled)
    script.chmod(0o755)
    for argv in (["bash", "-lc", filled], ["bash", "-x", "serve.sh"], ["./serve.sh"], ["nohup", "./serve.sh"]):
        assert interpreter_of(argv, plain, tmp_path) == venv.python


def test_conda_run_and_activate(venv: Environment, tmp_path):
    base = tmp_path / "miniconda3"
    (base / "envs").mkdir(parents=True)
    (base / "bin").mkdir()
    os.symlink(venv.prefix, base / "envs" / "serve")
    conda = base / "bin" / "conda"
    conda.write_text("#!/usr/bin/env python\n")
    conda.chmod(0o755)
    python = f"{base}/envs/serve/bin/python"
    near = {"PATH": f"{base}/bin:/usr/bin:/bin"}
    assert interpreter_of(["conda", "run", "-n", "serve", "--live-stream", "python", "-m", "x"], near, "/") == python
    assert interpreter_of([str(conda), "run", "--name=serve", "python"], {}, "/") == python
    assert interpreter_of(["conda", "run", "-p", str(venv.prefix), "python"], near, "/") == venv.python
    assert interpreter_of(["bash", "-c", "conda activate serve && python x"], near, "/") == python
    text = f"source {base}/bin/activate serve; python x"
    assert interpreter_of(["bash", "-c", text], {"PATH": "/usr/bin"}, "/") == python
    listed = {"PATH": f"{base}/bin", "HOME": str(tmp_path)}
    (tmp_path / ".conda").mkdir()
    (tmp_path / ".conda" / "environments.txt").write_text(f"{venv.prefix}\n")
    assert interpreter_of(["conda", "run", "-n", venv.prefix.name, "python"], listed, "/") == venv.python
    assert find_interpreter(["conda", "run", "-n", "other", "python"], near, "/").reason == (
        "the packages are not known: the environment that conda is to run in was not found"
    )


def test_uv_run_takes_the_environment_of_the_project(tmp_path, env):
    project = tmp_path / "project"
    (project / "deep").mkdir(parents=True)
    made = make_environment(project / ".venv")
    assert interpreter_of(["uv", "run", "python", "-m", "x"], env, project / "deep") == made.python
    assert interpreter_of(["uv", "run", "--directory", str(project), "serve.py"], env, tmp_path) == made.python
    assert find_interpreter(["uv", "run", "python"], env, tmp_path).path is None


@pytest.mark.parametrize(
    ("argv", "reason"),
    [
        ([], "the command names no Python interpreter"),
        (["/opt/none/bin/python", "-m", "x"], "/opt/none/bin/python was not found"),
        (["python9.99", "-m", "x"], "python9.99 was not found on the PATH of the launch"),
        (["docker", "run", "x", "python3"], "docker runs the command elsewhere, where its packages cannot be asked"),
        (["nohup", "srun", "python3"], "srun runs the command elsewhere, where its packages cannot be asked"),
        (["/bin/ls"], "/bin/ls is not a Python program"),
        (["nohup", "ls"], "nohup is given no Python interpreter"),
        (["bash", "-c", "/opt/none/python -m x &"], "/opt/none/python was not found"),
        (["bash", "-c", "ls; true"], "the shell command names no Python interpreter that is found"),
        (["bash", "missing.sh"], "/missing.sh cannot be read"),
        (["bash"], "bash is given no command"),
    ],
)  # fmt: skip
def test_why_there_is_no_interpreter(argv: list[str], reason: str):
    found = find_interpreter(argv, {"PATH": "/usr/bin:/bin"}, "/")
    assert (found.path, found.reason) == (None, f"the packages are not known: {reason}")


@pytest.mark.parametrize(
    ("rest", "options", "first"),
    [
        (["-m", "sglang.launch_server"], (), "{cwd}"),
        (["-c", "pass"], (), "{cwd}"),
        (["-u", "-X", "dev", "serve.py"], (), "{cwd}"),
        (["tools/serve.py"], (), "{cwd}/tools"),
        (["-s", "-Es", "-m", "x"], ("-s", "-Es"), "{cwd}"),
        (["-I", "-m", "x"], ("-I",), None),
        (["-P", "-m", "x"], ("-P",), None),
    ],
)
def test_what_python_would_search_first(venv: Environment, tmp_path, rest, options, first):
    found = find_interpreter([venv.python, *rest], {}, tmp_path)
    assert found.options == options
    assert found.first_path == (first.format(cwd=tmp_path) if first else None)


def test_a_script_that_calls_itself_ends(tmp_path):
    script = tmp_path / "loop.sh"
    script.write_text("#!/bin/bash\n./loop.sh\n")
    script.chmod(0o755)
    assert find_interpreter(["./loop.sh"], {"PATH": "/bin"}, tmp_path).path is None
