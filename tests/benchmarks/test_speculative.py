"""The model of speculative decoding: against what it was made from, real recordings, and through every door."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from tests.daemons import application

from sitrepd.benchmarks.speculating import costs_of
from sitrepd.benchmarks.speculative import Costs, Model, Point, acceptance_of, fitted, tokens
from sitrepd.errors import InvalidFact

DATA = Path(__file__).parent.parent / "data"
REFERENCE = [Point(1, 85.1 / 88.8), Point(2, 94.0 / 88.8), Point(5, 86.7 / 88.8)]
_PATH = "/api/v1/sessions/S1/comparison"


def model(points: list[Point], *told: Any) -> Model:
    found = fitted(points, *told)
    assert isinstance(found, Model), found
    return found


def simulated(chance: float, costs: Costs, steps: tuple[int, ...], accepted: bool = True) -> list[Point]:
    return [Point(k, tokens(chance, k) / costs.of(k), tokens(chance, k) if accepted else None) for k in steps]


def test_tokens_of_a_step_are_those_of_the_theorem() -> None:
    for chance in (0.0, 0.3, 0.9):
        assert tokens(chance, 4) == pytest.approx((1 - chance**5) / (1 - chance))
        assert acceptance_of(tokens(chance, 4), 4) == pytest.approx(chance, abs=1e-9)
    assert tokens(1.0, 4) == 5


def test_what_the_figures_were_made_from_is_found_again() -> None:
    costs = Costs(1.2, 0.11, "")
    for accepted in (True, False):
        found = model(simulated(0.7, costs, (1, 3, 4, 8), accepted))
        assert found.acceptance == pytest.approx(0.7, abs=1e-3)
        assert (found.costs.base, found.costs.draft) == (pytest.approx(1.2, rel=1e-2), pytest.approx(0.11, rel=2e-2))
        best = max(range(1, 11), key=lambda k: tokens(0.7, k) / costs.of(k))
        assert found.best[0] == best
        assert found.misfit == pytest.approx(0, abs=1e-3)
        assert found.blind == pytest.approx(0, abs=1e-2)
        assert found.notes == ()


def test_the_reference_session() -> None:
    """It tells no accept length: the fit is free, or told the accept rate of about 47 % that a finding names."""
    free = model(REFERENCE)
    assert free.acceptance == pytest.approx(0.64, abs=2e-3)
    assert free.misfit is not None
    assert free.misfit < 0.003
    assert free.blind is None
    assert "3 speed-ups for 3 unknowns" in free.notes[0]
    told = model(REFERENCE, 0.47)
    off = [row.off for row in told.rows if row.off is not None]
    assert max(map(abs, off)) < 0.013
    assert told.blind == pytest.approx(0.0445, abs=1e-3)
    for found in (free, told):
        assert found.best == (3, 2)
        assert [row.steps for row in found.rows if row.measured] == [1, 2, 5]
        assert len(found.rows) == 10


def test_no_speculation_is_best_where_nothing_is_accepted() -> None:
    """Of the H200 recordings: the three-step server was faster than the two-step one, which is noise."""
    found = model([Point(2, 388.216 / 660.761, 1.0), Point(3, 420.635 / 660.761, 1.0)])
    assert (found.acceptance, found.costs.draft, found.best) == (pytest.approx(0.0), 0.0, (0,))
    assert found.misfit == pytest.approx(0.04, abs=1e-3)
    assert "lost in noise" in found.notes[0]


def test_what_is_missing_is_said() -> None:
    assert "How many drafts are accepted is not known" in str(fitted(REFERENCE[:2]))
    assert "The cost of a step is not known" in str(fitted(REFERENCE[:1], 0.5))
    assert isinstance(fitted(REFERENCE[:1], 0.5, Costs(1.1, 0.1, "the profile")), Model)


def test_costs_by_a_profile() -> None:
    phases: list[dict[str, Any]] = [
        {"name": "draft", "calls": 400, "mean_ms": 1.2}, {"name": "draft_extend", "calls": 200, "total_ms": 160},
        {"name": "target_verify", "calls": 200, "total_ms": 4100},
    ]  # fmt: skip
    costs = costs_of(phases, 2, 14.0)
    assert (costs.base, costs.draft) == (pytest.approx((20.5 + 0.8) / 14), pytest.approx(1.2 / 14))
    for told, why in (((phases, None, 14.0), "--profile-steps"), ((phases, 2, None), "--plain-ms"),
                      (([{"name": "gemm"}], 2, 14.0), "no phases of draft and verify")):  # fmt: skip
        with pytest.raises(InvalidFact, match=why):
            costs_of(*told)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with application(tmp_path_factory.mktemp("model") / "store") as found:
        body = (DATA / "reference-session.jsonl").read_bytes()
        assert found.post("/api/v1/import", content=body).status_code == 201
        yield found


def test_through_http(client: TestClient) -> None:
    told = client.get(f"{_PATH}/speculative", params={"accept_rate": 0.47}).json()
    assert told["best"] == [3, 2]
    rows = {row["steps"]: row for row in told["rows"]}
    assert rows[2]["ids"] == ["B3"]
    assert rows[2]["measured"] == pytest.approx(94.0 / 88.8)
    assert rows[2]["off_percent"] == pytest.approx(-1.2, abs=0.05)
    assert "measured" not in rows[3]
    chart = client.get(f"{_PATH}/chart", params={"kind": "speculative"})
    assert chart.status_code == 200
    assert "expected" in chart.text
    assert client.get(f"{_PATH}/speculative", params={"accept_rate": 2}).status_code == 422
    assert client.get(f"{_PATH}/speculative", params={"profile": "P99"}).status_code == 404
    assert "speculates itself" in client.get(f"{_PATH}/speculative", params={"baseline": "B2"}).json()["detail"]


def test_a_profile_of_a_run_knows_its_steps(client: TestClient) -> None:
    phases = [{"name": "draft", "calls": 400, "mean_ms": 1.2}, {"name": "verify", "calls": 200, "mean_ms": 20.5}]
    answer = client.post("/api/v1/profiles", json={"benchmark": "B3", "phases": phases})
    asked = {"accept_rate": 0.47, "profile": answer.json()["id"]}
    assert "--plain-ms" in client.get(f"{_PATH}/speculative", params=asked).json()["detail"]
    told = client.get(f"{_PATH}/speculative", params=asked | {"plain_ms": 14}).json()
    assert (told["costs_from"], told["draft_cost"]) == ("the profile", pytest.approx(1.2 / 14))
    assert told["misfit_percent"] == pytest.approx(1.6, abs=0.1)


def test_on_the_dashboard(client: TestClient) -> None:
    page = client.get("/s/S1/comparison", params={"accept_rate": "0.47"}).text
    for text in (
        "Expected to be fastest: 3 steps; as good, as far as the model can tell: 2.",
        "+4.8 %",
        "0.470 (told)",
    ):
        assert text in page
    assert client.get("/s/S1/comparison", params={"accept_rate": "1.5"}).status_code == 422


def test_trees_and_marked_runs_are_left_out(tmp_path: Path) -> None:
    with application(tmp_path / "store") as client:
        client.post("/api/v1/sessions", json={"name": "s"})

        def tell(value: float, steps: int, **more: Any) -> None:
            config = {"speculative_num_steps": steps, "speculative_eagle_topk": more.pop("topk", 1)} if steps else {}
            metrics = {"output_throughput": value} | ({"accept_length": 2.0} if steps else {})
            body = {"config": config, "metrics": metrics, "baseline": not steps, "name": f"{steps} {more}"}
            assert client.post("/api/v1/benchmarks", json=body | more).status_code == 201

        tell(10.0, 0)
        tell(99.0, 3, topk=4)
        assert "no speculative_eagle_topk above 1" in client.get(f"{_PATH}/speculative").json()["detail"]
        tell(12.0, 2)
        tell(13.0, 4)
        tell(50.0, 4, marks=["2 requests failed"])
        rows = client.get(f"{_PATH}/speculative").json()["rows"]
        assert {row["steps"]: row["measured"] for row in rows if "measured" in row} == {2: 1.2, 4: 1.3}
