"""`sitrep doctor`, `install` and `run` as people call them, with a real daemon and a home folder of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.agents.calling import API, facts
from tests.cli.running import Done, Sitrep
from tests.daemons import Daemon, running_daemon
from tests.helpers import wait_until

pytestmark = pytest.mark.slow  # each test starts daemons of its own

BENCH = Path(__file__).parents[1] / "data" / "bench" / "sglang-0.5.16-base.jsonl"
TABLE = """
============ Serving Benchmark Result ============
Backend:                                 sglang
Successful requests:                     24
Benchmark duration (s):                  2.39
Output token throughput (tok/s):         660.76
Mean TTFT (ms):                          41.94
==================================================
"""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with running_daemon(tmp_path_factory.mktemp("doctor") / "store", discover_s=2) as found:
        found.client.post(f"{API}/sessions", json={"name": "work"}).raise_for_status()
        yield found


class Person(Sitrep):
    """Whoever types, in a project, with a home folder without clients."""

    def __init__(self, store: Path, folder: Path) -> None:
        self.project, self.home = folder / "project", folder / "home"
        (self.project / ".git").mkdir(parents=True)
        self.home.mkdir()
        super().__init__(store, self.project)

    def environment(self, **told: str) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "CLAUDE", "CODEX"))}
        found = {"HOME": str(self.home), "SITREP_DATA_DIR": str(self.store), "SITREP_ADOPT": "false", "NO_COLOR": "1"}
        return plain | found | told

    def checks(self, *words: str) -> dict[str, dict[str, Any]]:
        done = self("doctor", "--json", *words)
        assert done.code in (0, 1), done.err
        return {one["about"]: one for one in json.loads(done.out)["checks"]}


@pytest.fixture
def person(daemon: Daemon, tmp_path: Path) -> Person:
    return Person(daemon.data_dir, tmp_path)


def test_a_healthy_set_up_is_said_to_be_so(person: Person) -> None:
    person("install", "claude-code").ok()
    found = person.checks("claude-code")
    assert [one["about"] for one in found.values() if not one["ok"]] == []
    assert "reaches the daemon" in found["hook"]["detail"]
    assert "in place" in found["claude-code (user)"]["detail"]
    assert "S1 work is meant in this folder" in found["session"]["detail"]
    assert person("doctor", "claude-code").code == 0


def test_what_is_missing_is_said_with_what_to_do(person: Person) -> None:
    found = person.checks("codex")
    assert found["codex"]["fix"] == "sitrep install codex"
    person("install", "codex").ok()
    found = person.checks("codex")
    assert found["codex"]["detail"].startswith("not trusted, so Codex skips without a word: SessionStart")
    assert found["codex"]["fix"] == "run `/hooks` in Codex and trust them"
    hooks = person.home / ".codex" / "hooks.json"
    hooks.write_text(hooks.read_text().replace('"timeout": 5', '"timeout": 50', 1))
    assert "not as it should be" in person.checks("codex")["codex (user)"]["detail"]
    told = json.loads(hooks.read_text())
    told["hooks"]["Stop"].append({"hooks": [{"type": "http", "url": "http://127.0.0.1:1"}]})
    hooks.write_text(json.dumps(told))
    assert "has a hook of type http: Codex then reads none" in person("doctor", "codex").out
    told["hooks"]["Stop"].pop()
    hooks.write_text(json.dumps(told))
    person("install", "codex").ok()
    events = ["session_start", "user_prompt_submit", "pre_compact", "post_compact", "post_tool_use", "session_end"]
    places = [*(f"{event}:0:0" for event in events), "stop:0:0", "stop:0:1"]
    trusted = "".join(f'[hooks.state."{hooks}:{place}"]\ntrusted_hash = "sha256:0"\n' for place in places)
    with open(person.home / ".codex" / "config.toml", "a") as config:
        config.write(trusted)
    assert person("doctor", "codex").ok()


def test_a_project_has_to_be_trusted(person: Person) -> None:
    person("install", "claude-code", "--scope", "project").ok()
    done = person("doctor", "claude-code")
    assert done.code == 1
    assert f"{person.project} is not trusted yet" in done.out
    assert "server `sitrep` of .mcp.json is not approved yet" in done.out
    told = {str(person.project): {"hasTrustDialogAccepted": True, "enabledMcpjsonServers": ["sitrep"]}}
    (person.home / ".claude.json").write_text(json.dumps({"projects": told}))
    person("doctor", "claude-code").ok()


def test_two_plug_ins_are_one_too_many(person: Person) -> None:
    for scope in ("user", "project"):
        person("install", "opencode", "--scope", scope).ok()
    assert "everything is told twice" in person("doctor", "opencode").out
    person("uninstall", "opencode", "--scope", "project").ok()
    person("doctor", "opencode").ok()


def test_without_a_daemon_it_says_so_and_starts_none(person: Person, tmp_path: Path) -> None:
    person("install", "claude-code", env={"SITREP_DATA_DIR": str(tmp_path / "none")}).ok()
    done = person("doctor", "claude-code", env={"SITREP_DATA_DIR": str(tmp_path / "none")})
    assert done.code == 1
    assert "--  daemon: No daemon runs at" in done.out
    assert "--  hook: " in done.out
    assert not (tmp_path / "none").exists()


def test_print_shows_and_writes_nothing(person: Person) -> None:
    done = person("install", "gemini", "--print").ok()
    assert "+++ " in done.out
    assert "sitrep-hook" in done.out
    assert list(person.home.rglob("*")) == []
    told = person("install", "gemini", "--json").json
    assert {one["change"] for one in told["files"]} == {"created"}
    again = person("install", "gemini").ok().out
    assert again.count("Unchanged: ") == 2


# --- run ---------------------------------------------------------------------------------------------------------


def last(daemon: Daemon) -> dict[str, Any]:
    return facts(daemon.client, "commands")[-1]


def test_a_command_is_run_as_it_is_and_kept(person: Person, daemon: Daemon) -> None:
    script = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)"
    done: Done = person("run", "--", sys.executable, "-c", script)
    assert done.code == 7
    assert done.out == "out\n"
    kept = last(daemon)
    assert f"err\n{kept['id']}: exit status 7 after " in done.err
    assert (kept["exit_code"], kept["kind"], kept["cwd"]) == (7, "other", str(person.project))
    assert sorted(kept["output"].split()) == ["err", "out"]
    assert Path(kept["output_path"]).read_text() == kept["output"]
    assert kept["duration_ms"] >= 0
    assert kept["provenance"] == "told:cli"


def test_one_word_is_a_shell_line_and_a_signal_its_exit_status(person: Person, daemon: Daemon) -> None:
    done = person("run", "printf 'a b' | tr a c; kill -TERM $$")
    assert (done.code, done.out) == (143, "c b")
    assert last(daemon)["command"] == "printf 'a b' | tr a c; kill -TERM $$"
    assert person("run", "--", "no-such-program-at-all").code == 127


def test_files_that_it_left_and_results_that_it_wrote_are_found(person: Person, daemon: Daemon) -> None:
    bench = person.project / "bench_serving.py"
    bench.write_text(f"import shutil, sys; shutil.copy({str(BENCH)!r}, sys.argv[2])")
    done = person(
        "run", "--artifact", "r.jsonl", "--name", "by run", "--", sys.executable, str(bench), "--output-file", "r.jsonl"
    )
    assert done.code == 0, done.err
    kept = last(daemon)
    assert kept["kind"] == "benchmark"
    assert [name[0] for name in kept["results"]] == ["A", "B"]
    benchmark = daemon.client.get(f"{API}/benchmarks/{kept['results'][1]}").json()
    assert benchmark["name"] == "by run"
    assert benchmark["artifact"] == str(person.project / "r.jsonl")


def test_what_it_printed_is_a_result_where_it_left_no_file(person: Person, daemon: Daemon) -> None:
    (person.project / "table").write_text(TABLE)
    done = person("run", "cat table")
    assert done.code == 0, done.err
    (name,) = last(daemon)["results"]
    benchmark = daemon.client.get(f"{API}/benchmarks/{name}").json()
    assert benchmark["metrics"]["output_throughput"]["value"] == 660.76
    assert benchmark["metrics"]["mean_ttft_ms"]["unit"] == "ms"
    assert benchmark["note"] == "Read from what it printed, which is rounded."


def test_without_a_daemon_the_command_still_runs(person: Person, tmp_path: Path) -> None:
    env = {"SITREP_DATA_DIR": str(tmp_path / "none")}
    done = person("run", "--no-start", "--", "echo", "hello", env=env)
    assert done.out == "hello\n"
    assert done.code == 1
    assert "was not recorded: No daemon runs" in done.err
    (copy,) = (tmp_path / "none" / "runs").iterdir()
    assert copy.read_text() == "hello\n"


def test_a_benchmark_that_somebody_runs_fills_the_table_by_itself(daemon: Daemon, tmp_path: Path) -> None:
    bench = tmp_path / "bench_serving.py"
    bench.write_text(
        "import sys, time\n"
        "while not __import__('os').path.exists('go'): time.sleep(0.05)\n"
        f"open(sys.argv[2], 'a').write(open({str(BENCH)!r}).read().replace('random-ids', 'observed'))\n"
    )
    process = subprocess.Popen([sys.executable, bench, "--output-file", "r.jsonl"], cwd=tmp_path)
    try:
        watched = wait_until(lambda: daemon.client.get(f"{API}/servers").json()["benchmarks"])
        assert watched[0]["pid"] == process.pid
        (tmp_path / "go").touch()
        process.wait(60)

        def taken() -> list[dict[str, Any]]:
            return [one for one in facts(daemon.client, "benchmarks") if "observed" in json.dumps(one["workload"])]

        (found,) = wait_until(taken)
    finally:
        process.kill()
        process.wait()
    assert found["provenance"] == f"observed:{tmp_path / 'r.jsonl'}"
    assert found["artifact"] == str(tmp_path / "r.jsonl")


# --- init --------------------------------------------------------------------------------------------------------


def test_agents_md_gets_six_lines_where_it_is_there_or_wanted(person: Person) -> None:
    file = person.project / "AGENTS.md"
    person("init").ok()
    assert not file.exists()
    assert "has the six lines on Sitrep" in person("init", "--agents").ok().err
    first = file.read_text()
    assert first.count("\n- ") == 6
    file.write_text("# Mine\n")
    assert person("init", "--no-agents").ok().err == ""
    assert file.read_text() == "# Mine\n"
    person("init").ok()
    assert file.read_text() == f"# Mine\n\n{first}"
    assert person("init").ok().err == ""


def test_a_directive_is_confirmed_or_dismissed(person: Person, daemon: Daemon) -> None:
    number = person("directive", "add", "Never guess.", "--proposed", "--json").json["id"]
    assert f"{number} is confirmed: Never guess." in person("directive", "confirm", number).ok().out
    assert daemon.client.get(f"{API}/directives/{number}").json()["proposed"] is False
    assert f"{number} is taken back" in person("directive", "dismiss", number).ok().out
    assert daemon.client.get(f"{API}/directives/{number}").json()["active"] is False
