from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from sitrepd.app import create_app
from sitrepd.late import LateRoutes
from sitrepd.settings import load_settings


@pytest.mark.slow
def test_a_request_makes_the_routes_that_it_asks_for_and_no_others(tmp_path: Path) -> None:
    app = create_app(load_settings(data_dir=tmp_path, port=0))
    store = app.state.runtime.store
    client = TestClient(app, base_url="http://localhost:0", headers={"Authorization": f"Bearer {store.token}"})

    def made() -> int:
        return sum(route.is_made for route in app.router.routes if isinstance(route, LateRoutes))

    try:
        assert client.get("/api/v1/health").json() == {"status": "ok"}
        assert made() == 0
        assert client.get("/api/v1/findings").json()["data"] == []
        assert made() == 1
        assert client.get("/").status_code == 200
        assert made() == 2
        assert client.get("/api/v1/nothing").status_code == 404
        assert made() == sum(isinstance(route, LateRoutes) for route in app.router.routes)
        assert len(app.router.routes) == len(set(map(id, app.router.routes)))
        assert client.get("/api/v1/openapi.json").status_code == 200
    finally:
        store.close()


@pytest.mark.parametrize("method", ["get", "post"])
def test_the_first_request_finds_a_route_that_no_word_leads_to(tmp_path: Path, method: str) -> None:
    """The slice that comes first by name is made by whatever comes last."""
    app = create_app(load_settings(data_dir=tmp_path, port=0))
    store = app.state.runtime.store
    client = TestClient(app, base_url="http://localhost:0", headers={"Authorization": f"Bearer {store.token}"})
    try:
        if method == "get":
            assert client.get("/api/v1/hooks").status_code == 200
        else:
            assert client.post("/api/v1/backfill", json={}).status_code == 409, "no session is open"
    finally:
        store.close()
