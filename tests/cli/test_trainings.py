"""Training runs by command line: read, read anew, drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.running import Sitrep

DATA = Path(__file__).parent.parent / "data" / "trainings"


@pytest.mark.slow
def test_a_run_is_read_and_read_anew(sitrep: Sitrep, tmp_path: Path) -> None:
    sitrep("init", "s").ok()
    state = DATA / "transformers-5.19-trainer_state.json"
    told = sitrep("training", "read", str(state), "--name", "drafter", "--data", "100k rows").ok().out
    assert told.startswith("T1 stored, by HF Trainer: 6 points.\n")
    assert "Best eval_loss: 4.332781791687012 at epoch 3.0, step 18." in told
    log = tmp_path / "train.jsonl"
    log.write_text('{"step": 1, "loss": 3.0}\n{"step": 2, "loss": 2.0}\n')
    assert "T2 stored, by JSON Lines: 2 points." in sitrep("training", "read", str(log)).ok().out
    log.write_text(log.read_text() + '{"step": 3, "loss": 1.5}\n')
    assert "Best loss: 1.5 at step 3." in sitrep("training", "read", str(log), "--into", "T2").ok().out
    assert len(sitrep("training", "show", "T2", "--json").json["points"]) == 3
    assert "Best loss: 1.5" in sitrep("training", "show", "T2", "--metric", "loss").ok().out
    for name, begin in (("c.svg", b"<svg"), ("c.png", b"\x89PNG")):
        sitrep("training", "curve", "T1", "-o", str(tmp_path / name)).ok()
        assert (tmp_path / name).read_bytes().startswith(begin)
    assert "there is no wish" in sitrep("training", "curve", "T1", "--metric", "wish").refused()
    log.write_text("nothing")
    assert "no metrics by epoch or step" in sitrep("training", "read", str(log)).refused()
    assert len(sitrep("training", "list", "--json").json["data"]) == 2


@pytest.mark.slow
def test_published_results_beside_ones_own(sitrep: Sitrep) -> None:
    sitrep("init", "s").ok()
    assert sitrep("reference", "compare").ok().out == "No references yet.\n"
    words = ("--metric", "output_throughput=107.0:tok/s", "--config", "tp_size=8")
    sitrep("reference", "add", "blog", *words).ok()
    assert "Nothing of one's own has measured output_throughput." in sitrep("reference", "compare").ok().out
    sitrep("bench", "add", "--name", "mine", "--metric", "output_throughput=94.0:tok/s", "--config", "tp_size=4").ok()
    told = sitrep("reference", "compare", "r1").ok().out
    for text in ("-12.1 %", "worse", "B1  mine", "Differs: tp_size 4 here, 8 there."):
        assert text in told
    assert sitrep("reference", "compare", "R1", "--json").json["data"][0]["sides"][0]["ours"] == "94.0"
    assert sitrep("reference", "compare", "R9").code == 2
