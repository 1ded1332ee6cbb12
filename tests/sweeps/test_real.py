"""A sweep of EAGLE-3 steps that was run on an H200 with SGLang 0.5.16, and what was printed of it there.

The draft model was never trained: it costs time and accepts nothing, so that no speculation is best.
Its accept lengths stand as they were written then, 1.0217: 752 tokens in 736 steps, with the one that each of 16 prefills
yielded. They are 1.0 as counted now (`tests/benchmarks/test_counters.py`), and the acceptance that is fitted here with them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.checkpoints.telling import latest, make
from tests.daemons import application

from sitrepd.cli.sweep_watch import say_status

RECORDED = Path(__file__).parent.parent / "data" / "h200-sweep.jsonl"
_API = "/api/v1/sessions/S1"

_TABLE = """\
W1 EAGLE-3 steps is done.
TRIAL  NAME                     STATE  LAUNCH  OUTPUT_THROUGHPUT  RUNS  TO BASELINE  VERDICT
1      baseline                 done   L1      628.49 tok/s       3
2      speculative-num-steps 1  done   L2      531.74 tok/s       3     -15.4 %      no difference seen, 95 % interval -32.4 to +5.4 %
3      speculative-num-steps 2  done   L3      488.58 tok/s       3     -22.3 %      worse, 95 % interval -36.3 to -4.9 %
4      speculative-num-steps 3  done   L4      481.28 tok/s       3     -23.4 %      worse, 95 % interval -36.4 to -7.0 %
Best by output_throughput: baseline (628.49, mean of 3 runs).
"""
_COMMAND = (
    "python3 -m sglang.launch_server --model-path /opt/models/target --trust-remote-code --tp-size 1 "
    "--mem-fraction-static 0.5 --host 127.0.0.1 --port 30000 --attention-backend triton --sampling-backend pytorch "
    "--grammar-backend none --enable-metrics --cuda-graph-max-bs 8"
)
_DERIVED = (
    "speculative-num-draft-tokens = speculative_num_steps + 1; "
    "speculative-algorithm = 'EAGLE3' if speculative_num_steps is not absent else absent; "
    "speculative-draft-model-path = '/opt/models/draft' if speculative_num_steps is not absent else absent; "
    "speculative-eagle-topk = 1 if speculative_num_steps is not absent else absent"
)
_SECTION = f"""\
- W1 EAGLE-3 steps (done): 4 of 4 trials over
  - Best by output_throughput: baseline (the baseline itself), 628.49 tok/s, mean of 3 runs; B1 B2 B3
- Trials of W1 that are over: 4
  - baseline: done L1 B1 B2 B3; 628.49 tok/s, mean of 3 runs
  - speculative-num-steps 1: done L2 B4 B5 B6; 531.74 tok/s, -15.4 %, no difference seen, 95 % interval -32.4 to +5.4 %, mean of 3 runs
  - speculative-num-steps 2: done L3 B7 B8 B9; 488.58 tok/s, -22.3 %, worse, 95 % interval -36.3 to -4.9 %, mean of 3 runs
  - speculative-num-steps 3: done L4 B10 B11 B12; 481.28 tok/s, -23.4 %, worse, 95 % interval -36.4 to -7.0 %, mean of 3 runs
  - Parameters: speculative-num-steps absent, 1, 2, 3; {_DERIVED}
  - Command that is varied, in /tmp/work: {_COMMAND}"""


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with application(tmp_path_factory.mktemp("real") / "store") as found:
        told = found.post("/api/v1/import", params={"name": RECORDED.name}, content=RECORDED.read_bytes())
        assert told.status_code == 201, told.text
        yield found


def test_the_runs_compared(client: TestClient) -> None:
    told = client.get(f"{_API}/comparison").json()
    rows = told["rows"]
    assert [row["ids"] for row in rows] == [[f"B{n}" for n in range(first, first + 3)] for first in (1, 4, 7, 10)]
    assert [float(row["value"]) for row in rows] == pytest.approx([628.4874, 531.7429, 488.5829, 481.2847], abs=5e-5)
    assert [row.get("difference") for row in rows] == [None, "-15.4 %", "-22.3 %", "-23.4 %"]
    assert [row["verdict"].get("word") for row in rows] == [None, "no difference seen", "worse", "worse"]
    assert [row["label"] for row in rows if row.get("best")] == ["baseline"]
    assert [(row["pareto"], row["launches"]) for row in rows if row.get("pareto")] == [(True, ["L1"])]


def test_the_table_of_its_trials(client: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    say_status(client.get("/api/v1/sweeps/W1/status").json())
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == _TABLE.splitlines()


def test_while_its_last_trial_runs_it_says_how_long_still(
    client: TestClient, capsys: pytest.CaptureFixture[str]
) -> None:
    told = client.get("/api/v1/sweeps/W1/status").json() | {
        "state": "running", "remaining_s": 194.0, "remaining_low_s": 193.0, "remaining_high_s": 317.0,
        "done_at": "2026-12-01T13:45:32Z",
    }  # fmt: skip
    told["trials"][-1] |= {"state": "running", "step": "loading"}
    say_status(told)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("The last trial is under way. About 3 min 14 s still (3 min 13 s to 5 min 17 s), until ")


def test_its_section_of_a_checkpoint(client: TestClient) -> None:
    make(client)
    text = latest(client, budget="full")
    assert f"## Sweeps\n{_SECTION}\n\n## Models\n" in text
    assert "- B1, B2, B3 baseline: 628.4874 tok/s output_throughput, baseline, mean of 3 runs, on L1" in text


def test_the_model_says_that_no_speculation_is_best(client: TestClient) -> None:
    told = client.get(f"{_API}/comparison/speculative").json()
    assert told["best"] == [0]
    assert told["acceptance"] == pytest.approx(0.0217, abs=0.001)  # nothing was accepted: see above
    measured = [row for row in told["rows"] if "measured" in row]
    assert [(row["steps"], row["ids"]) for row in measured] == [
        (1, ["B4", "B5", "B6"]), (2, ["B7", "B8", "B9"]), (3, ["B10", "B11", "B12"]),
    ]  # fmt: skip
    assert [row["measured"] - 1 for row in measured] == pytest.approx([-0.1539, -0.2226, -0.2342], abs=1e-4)
    assert all(abs(row["off_percent"]) < 3 for row in measured)
    assert all(row["expected"] < 1 for row in told["rows"])


def test_what_is_exported_of_it_is_what_was_recorded(client: TestClient) -> None:
    answer = client.get(f"{_API}/export")
    assert answer.status_code == 200
    exported = [json.loads(line) for line in answer.text.splitlines()]
    recorded = [json.loads(line) for line in RECORDED.read_text().splitlines()]
    for kind in ("sweep", "trial", "benchmark", "launch", "stack", "model"):
        # This machine is a host too, and which of the two is H1 is a matter of time.
        told, kept = ([{**one, "host": None} for one in lines if one["type"] == kind] for lines in (exported, recorded))
        assert told == kept


def test_its_checkpoint_read_by_another_daemon_says_the_same(client: TestClient, tmp_path: Path) -> None:
    make(client)
    document = latest(client, format="json", budget="full")
    with application(tmp_path / "store") as other:
        told = other.post("/api/v1/import", params={"name": "S1.json"}, content=document.encode())
        assert told.status_code == 201, told.text
        names = ("metric", "unit", "count", "over", "trials")
        first, second = (one.get("/api/v1/sweeps/W1/status").json() for one in (client, other))
        assert [first[name] for name in names] == [second[name] for name in names]
        make(other)
        assert f"## Sweeps\n{_SECTION}\n\n## Models\n" in latest(other, budget="full")
