"""`sitrep diagnose` answers from a log alone, and needs no daemon."""

from __future__ import annotations

from pathlib import Path

from tests.cli.running import Sitrep
from tests.launches.reading import LOGS

LOG = LOGS / "h200-0.5.16-fail-memfraction.log"


def test_it_says_why_and_what_to_do(sitrep: Sitrep) -> None:
    told = sitrep("diagnose", str(LOG)).ok().out.splitlines()
    assert told[0] == "The weights leave no room for the KV cache under the memory fraction"
    assert told[1] == "State: failed, kv_cache. Category: memory_kv_pool."
    assert "Fix:   --mem-fraction-static 0.04 or more (now 0.01; the least that works is 0.028)." in told
    assert not (sitrep.store / "sitrep.db").exists()


def test_json_is_the_same_from_a_file_and_from_a_pipe(sitrep: Sitrep) -> None:
    told = sitrep("diagnose", str(LOG), "--json").json
    assert list(told) == ["state", "phase", "category", "summary", "cause", "fix", "evidence"]
    assert told["category"] == "memory_kv_pool"
    assert all(list(one) == ["line", "text"] for one in told["evidence"])
    assert sitrep("diagnose", "-", "--json", stdin=LOG.read_bytes()).json == told


def test_nothing_failed(sitrep: Sitrep) -> None:
    told = sitrep("diagnose", str(LOGS / "cpu-0.5.23-success.log"), "--json").json
    assert (told["category"], told["cause"], told["fix"]) == (None, None, None)


def test_folder_of_the_model_is_looked_at(sitrep: Sitrep, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "model-00001-of-00001.safetensors"}}')
    log = str(LOGS / "h200-0.5.16-fail-missing-shard.log")
    told = sitrep("diagnose", log, "--model-folder", str(tmp_path), "--json").json
    assert (told["state"], told["category"]) == ("capturing", "weights_missing")


def test_log_that_cannot_be_read(sitrep: Sitrep, tmp_path: Path) -> None:
    assert "cannot be read: No such file or directory" in sitrep("diagnose", str(tmp_path / "gone")).refused()
    assert "cannot be read: Is a directory" in sitrep("diagnose", str(tmp_path)).refused()
