"""HTTP of what was found among the processes of this machine."""

from __future__ import annotations

from sitrepd.launches.discovery.service import Discovery
from sitrepd.launches.discovery.view import ServersOut
from sitrepd.routing import RuntimeDep, api_router

router = api_router("launches")


@router.get("/servers", name="list_servers", response_model=ServersOut, response_model_exclude_none=True)
async def servers(runtime: RuntimeDep) -> ServersOut:
    """All servers on this machine, followed or not; what earlier ones left behind; benchmarks that run."""
    discovery: Discovery = runtime.live["discovery"]
    return await discovery.look()
