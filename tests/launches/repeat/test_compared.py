"""Two launches compared, and one written down: through a real daemon, with real starts and a script that is run."""

from __future__ import annotations

import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.cli.running import Sitrep
from tests.daemons import Daemon
from tests.helpers import PATIENCE_S, free_port, wait_until
from tests.launches.repeat.conftest import SECRET, caller_env, get, line, start, until
from tests.stack.test_git import git

from sitrepd.launches.ports import who_listens

pytestmark = pytest.mark.slow  # each test starts daemons of its own


def by_name(found: list[dict[str, Any]]) -> dict[str, tuple[Any, Any]]:
    return {one["name"]: (one["a"], one["b"]) for one in found}


def stack_of(daemon: Daemon, launch: str) -> dict[str, Any]:
    found: dict[str, Any] = wait_until(
        lambda: (answer := daemon.client.get(f"/api/v1/launches/{launch}/stack")).status_code == 200 and answer.json(),
        30,
    )
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A working tree with a patch that is not committed."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "eagle_worker.py").write_text("steps = 1\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "eagle_worker.py").write_text(f"steps = 2\napi_key = '{SECRET}'\n")
    return folder


@pytest.mark.slow
def test_what_differs_between_two_starts(daemon: Daemon, tmp_path: Path, tree: Path) -> None:
    sitrep = Sitrep(daemon.data_dir, tmp_path)
    port = free_port()
    start(daemon, command=line(port, tmp_path / "a.log"), cwd=str(tree), name="a")
    until(daemon, "L1", "ready")
    stack_of(daemon, "L1")
    daemon.client.post("/api/v1/launches/L1/stop", json={"grace_s": 5, "wait_s": 20})
    (tree / "eagle_worker.py").write_text("steps = 3\n")
    # Another pace, as two starts of the same may take the same tenths of a second.
    changed = {
        "set": {"speculative-num-steps": 5, "tp": 4, "duration": 3},
        "env": {"NCCL_PROTO": "Simple"},
        "name": "b",
    }
    assert daemon.client.post("/api/v1/launches/L1/restart", json=changed).status_code == 201
    until(daemon, "L2", "ready")
    stack_of(daemon, "L2")
    told = get(daemon, "launches/L1/diff/L2")
    assert by_name(told["command"]) == {"name": ("a", "b")}
    asked = {"tp_size": ("8", "4"), "speculative_num_steps": ("3", "5")}
    assert by_name(told["flags"]) == asked
    assert by_name(told["environment"]) == {"NCCL_PROTO": ("LL", "Simple")}
    settings = by_name(told["settings"])
    assert settings.keys() == {"tp_size", "speculative_num_steps", "speculative_num_draft_tokens"}
    assert settings["speculative_num_draft_tokens"] == (4, 6)
    (name, (one, other)), *more = by_name(told["stack"]).items()
    assert name == f"git {tree}"
    assert more == []
    assert one != other
    assert " with changes " in one
    first, second = by_name(told["phases"])["ready"]
    assert second > first + 1
    assert by_name(told["outcome"])["state"] == ("exited", "ready")
    assert told["unknown"] == []
    said = sitrep("diff", "L1", "L2").ok().out
    assert "Flags, as asked:\n" in said
    assert ["speculative_num_steps", "3", "5"] in [row.split() for row in said.splitlines()]
    assert sitrep("diff", "L1", "L2", "--json").json == told
    same = get(daemon, "launches/L1/diff/L1")
    assert [part for part in same if part not in ("a", "b") and same[part]] == []


def test_what_is_not_known_of_an_imported_launch_is_said(daemon: Daemon) -> None:
    start(daemon, start=False, command="python -m sglang.launch_server --model-path /m --tp 8")
    start(daemon, start=False, state="failed")
    told = get(daemon, "launches/L1/diff/L2")
    assert by_name(told["flags"]) == {"model_path": ("/m", None), "tp_size": ("8", None)}
    assert [one for one in told["unknown"] if "L2" in one and "command" in one]
    script = daemon.client.get("/api/v1/launches/L2/repro").text
    assert "Its command was not recorded" in script
    assert subprocess.run(["bash", "-c", script], capture_output=True, check=False).returncode == 1


def test_show_prints_the_settings_that_say_something(daemon: Daemon, tmp_path: Path) -> None:
    sitrep = Sitrep(daemon.data_dir, tmp_path)
    start(daemon, command=line(free_port(), tmp_path / "a.log"), cwd=str(tmp_path))
    until(daemon, "L1", "ready")
    shown = sitrep("launch", "show", "L1").ok().out
    assert "  speculative_num_draft_tokens: 4  (asked: 6; changed by the engine)\n" in shown
    assert "  max_running_requests: 48  (chosen by the engine)\n" in shown
    assert "  tp_size: 8\n" in shown
    assert "watchdog_timeout" not in shown
    assert f"type: launch\n{shown}" == sitrep("show", "L1").ok().out
    assert "watchdog_timeout" in sitrep("launch", "show", "L1", "--all").ok().out
    changed = sitrep("launch", "show", "L1", "--changed").ok().out
    assert "speculative_num_draft_tokens" in changed
    assert "tp_size" not in changed
    kinds = {one["name"]: one["kind"] for one in sitrep("launch", "show", "L1", "--changed", "--json").json["data"]}
    assert (kinds["tp_size"], kinds["speculative_num_draft_tokens"]) == ("asked", "changed")


def test_the_script_of_a_launch_runs_it_again(daemon: Daemon, tmp_path: Path) -> None:
    sitrep = Sitrep(daemon.data_dir, tmp_path)
    model, work, port = tmp_path / "my model", tmp_path / "my work", free_port()
    work.mkdir()
    daemon.client.post("/api/v1/sessions", json={"name": "s"})
    command = line(port, Path("serve.log"), 1, f"--api-key {SECRET}", shlex.quote(str(model)))
    env = caller_env(CUDA_VISIBLE_DEVICES="0,1", MARK="it's", PATH=os.environ["PATH"])
    start(daemon, command=command, cwd=str(work), env=env, inherit_env=False, told_env=["MARK"])
    until(daemon, "L1", "ready")
    stack_of(daemon, "L1")
    daemon.client.post("/api/v1/launches/L1/stop", json={"grace_s": 5, "wait_s": 20})
    daemon.client.post(
        "/api/v1/benchmarks", json={"name": "run", "launch": "L1", "workload": {"command": "bench --n 3"}}
    )
    script = tmp_path / "again.sh"
    assert sitrep("repro", "B1", "-o", str(script)).ok().out == f"Written to {script}.\n"
    text = script.read_text()
    assert SECRET not in text
    assert "# Runs L1 again, for B1 (run)" in text
    assert "# bench --n 3" in text
    assert "nvidia-ml-py==" in text
    assert "bench" not in sitrep("repro", "L1").ok().out

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        plain = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **more}
        return subprocess.run([str(script)], env=plain, capture_output=True, text=True, check=False, timeout=PATIENCE_S)

    assert run().stderr == "API_KEY is not set\n"
    assert "is not here" in run(API_KEY=SECRET).stderr
    model.mkdir()
    (work / "serve.log").unlink()
    assert run(API_KEY=SECRET).returncode == 0
    wait_until(lambda: who_listens(port))
    process = psutil.Process(who_listens(port)[0].pid)
    try:
        assert process.cwd() == str(work)
        assert (process.environ()["CUDA_VISIBLE_DEVICES"], process.environ()["MARK"]) == ("0,1", "it's")
        assert SECRET in process.cmdline()
    finally:
        process.kill()
        process.wait(PATIENCE_S)


def test_a_bundle_tells_all_but_secrets(daemon: Daemon, tmp_path: Path, tree: Path) -> None:
    sitrep = Sitrep(daemon.data_dir, tmp_path)
    planted = {"key": SECRET, "hf": "hf_" + "Zx9Y" * 9, "plain": "correct-horse-battery"}
    script = tree / "srv.py"
    script.write_text(
        "import os, sys\n"
        "for n in range(3000): print('line', n)\n"
        f"print('Authorization: Bearer {planted['hf']}', '--api-key {SECRET}')\n"
        "print('echo', os.environ['DB_PASSWORD'])\n"
        "print('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of '\n"
        "      '79.11 GiB of which 1.00 GiB is free.')\n"
        "sys.exit(1)\n"
    )
    argv = [sys.executable, "srv.py", "--api-key", SECRET]
    env = caller_env(DB_PASSWORD=planted["plain"], HF_TOKEN=planted["hf"], NCCL_DEBUG="INFO")
    start(daemon, argv=argv, cwd=str(tree), env=env, inherit_env=False, name="broken")
    until(daemon, "L1", "failed")
    stack_of(daemon, "L1")
    out = tmp_path / "b.tar.gz"
    told = sitrep("bundle", "L1", "-o", str(out), "--json", env={"DB_PASSWORD": planted["plain"]}).json
    assert told["bytes"] == out.stat().st_size
    with tarfile.open(out) as archive:
        files = {Path(one.name).name: io.TextIOWrapper(archive.extractfile(one)).read() for one in archive}  # type: ignore[arg-type]
        first = archive.getnames()[0]
    assert first == "sitrep-L1/README.md"
    assert {
        "README.md",
        "repro.sh",
        "launch.json",
        "stack.json",
        "host.json",
        "diagnosis.json",
        "log.txt",
    } <= files.keys()
    assert "tree-1.diff" in files
    for name, secret in planted.items():
        found = [file for file, text in files.items() if secret in text]
        assert found == [], name
    assert "steps = 2" in files["tree-1.diff"]
    assert "lines left out" in files["log.txt"]
    assert "line 0\n" in files["log.txt"]
    assert "out of memory" in files["log.txt"]
    for name in ("launch.json", "stack.json", "host.json", "diagnosis.json"):
        json.loads(files[name])
    launch = json.loads(files["launch.json"])
    assert (launch["name"], launch["environment"]["NCCL_DEBUG"]) == ("broken", "INFO")
    assert subprocess.run(["bash", "-n", "-c", files["repro.sh"]], check=False).returncode == 0
    assert f"`{json.loads(files['diagnosis.json'])['category']}`" in files["README.md"]


def test_a_living_server_s_own_secrets_are_left_out_wherever_they_stand(daemon: Daemon, tmp_path: Path) -> None:
    script = "import os, time; print('I was told', os.environ['DB_PASSWORD'], flush=True); time.sleep(300)"
    env = caller_env(DB_PASSWORD="correct-horse-battery")
    start(daemon, argv=[sys.executable, "-c", script], cwd=str(tmp_path), env=env, ready_pattern="told")
    until(daemon, "L1", "ready")
    data = daemon.client.get("/api/v1/launches/L1/bundle").content
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        log = archive.extractfile("sitrep-L1/log.txt")
        assert log is not None
        assert log.read().decode().strip() == "1  I was told ${DB_PASSWORD}"


def test_the_stack_keeps_what_a_working_tree_has_beyond_its_commit(daemon: Daemon, tmp_path: Path, tree: Path) -> None:
    sitrep = Sitrep(daemon.data_dir, tmp_path)
    start(daemon, argv=[sys.executable, "-c", "print('x')"], cwd=str(tree))
    stack = stack_of(daemon, "L1")
    [diff] = [one for one in stack["diffs"] if one["path"] == str(tree)]
    assert diff["commit"] == git(tree, "rev-parse", "HEAD")
    assert "+steps = 2" in diff["text"]
    assert SECRET not in json.dumps(stack)
    shown = sitrep("show", stack["id"]).ok().out
    assert "  +steps = 2\n" in shown
    assert "eagle_worker.py | " in shown
    assert shown == f"type: stack\n{sitrep('stack', 'show', stack['id']).ok().out}"
