"""A sweep over two settings of the real SGLang, with the client of its own wheel, and nobody about."""

from __future__ import annotations

import json
from pathlib import Path

from tests.engine.models import VOCABULARY, make_model
from tests.engine.servers import Room
from tests.helpers import free_port, wait_until

_FLAGS = [
    "--dataset-name", "random-ids", "--tokenize-prompt", "--vocab-size", str(VOCABULARY), "--num-prompts", "6",
    "--random-input-len", "16", "--random-output-len", "32", "--random-range-ratio", "1", "--max-concurrency", "2",
]  # fmt: skip


def test_a_sweep_over_two_settings_ends_in_a_table_and_a_checkpoint(room: Room) -> None:
    argv = room.command(make_model(room.folder / "swept"), free_port())
    path = _file(room.folder / "sweep.toml", argv)
    plan = room.sitrep("sweep", "check", str(path), "--json").json
    assert [one["name"] for one in plan["trials"]] == ["baseline", "max-running-requests 4"]
    bad = room.sitrep("sweep", "check", str(path), "--vary", "no-such-flag=1,2").refused()
    assert "--no-such-flag" in bad
    sweep = room.sitrep("sweep", "run", str(path), "--detach", "--json").json["id"]

    def over() -> bool:
        told = room.sitrep("sweep", "show", sweep, "--json").json
        return told["state"] not in ("planned", "running")

    wait_until(over, 600, 2)
    told = room.sitrep("sweep", "show", sweep, "--json").json
    assert told["state"] == "done", told
    assert [(one["state"], one["runs"]) for one in told["trials"]] == [("done", 2)] * 2, told
    assert all(float(one["value"]) > 0 for one in told["trials"])
    assert told["trials"][1]["verdict"]
    table = room.sitrep("sweep", "show", sweep).ok().out
    assert "max-running-requests 4" in table
    assert "Best by output_throughput" in table
    text = room.sitrep("checkpoint").ok().out
    assert f"{sweep} two settings (done): 2 of 2 trials over" in text
    settings = [room.show(one["launch"])["settings"]["max_running_requests"] for one in told["trials"]]
    assert settings[1] == 4
    assert settings[0] != 4


def _file(path: Path, argv: list[str]) -> Path:
    path.write_text(f"""
name = "two settings"
baseline = {{ max-running-requests = "absent" }}
[template]
argv = {json.dumps(argv)}
[parameters]
max-running-requests = ["absent", 4]
[[benchmarks]]
tool = "sglang-rust"
flags = {json.dumps(_FLAGS)}
repeat = 2
""")
    return path
