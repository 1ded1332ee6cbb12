"""Whether GPUs and port are free for a trial, and until when they are not."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

from sitrepd.clock import utc_now
from sitrepd.hardware.live import LiveHardware
from sitrepd.launches.check.claimed import check_claims
from sitrepd.launches.check.model import Look
from sitrepd.launches.check.subject import described
from sitrepd.launches.models import LaunchCreate
from sitrepd.launches.ports import port_taken, who_listens
from sitrepd.launches.processes import read_stat
from sitrepd.launches.start import plan
from sitrepd.runtime import Runtime

FREE_WITHIN_S = 180.0
_LISTED_WITHIN_S = 15.0
_LOOK_S = 0.25
_PAUSE_S = 5.0


async def wait_for_others(runtime: Runtime, body: LaunchCreate, session_id: int | None, say: Any) -> None:
    """Until nobody else has the GPUs or the port; `say` is told for what is waited, and None once it is over."""
    said = None
    while (why := await asyncio.to_thread(_taken, runtime, body, session_id)) is not None:
        if why != said:
            await say(f"waits: {why}")
            said = why
        await asyncio.sleep(_PAUSE_S)
    if said is not None:
        await say(None)


def _taken(runtime: Runtime, body: LaunchCreate, session_id: int | None) -> str | None:
    planned = plan(body.model_copy(update={"force": True}))
    port = body.port or planned.facts.port
    if port is not None and port_taken(port, planned.facts.host):
        holders = who_listens(port, planned.facts.host)
        pid = next((one.pid for one in holders if one.pid), None)
        return f"port {port} is taken by {f'pid {pid}' if pid else 'a process of another user'}"
    hardware = runtime.live.get("hardware") or LiveHardware()
    look = Look(runtime.store, hardware, runtime.settings.data_dir / "flags", runtime.host_id, session_id, "sweep")
    against = [one for one in check_claims(described(planned, hardware), look) if one.level == "warning"]
    return against[0].text.rstrip(".") if against else None


async def released(runtime: Runtime, launch: int, body_port: int | None, host: str | None) -> str | None:
    """Wait until what a launch held is free again; what still is not after a while, in words."""
    ended, began = utc_now(), asyncio.get_running_loop().time()
    while True:
        why = await asyncio.to_thread(_held, runtime, launch, body_port, host)
        waited = asyncio.get_running_loop().time() - began
        if why is not None and waited > FREE_WITHIN_S:
            return why
        if why is None and (waited > _LISTED_WITHIN_S or not _is_listed(runtime, launch, ended)):
            return None
        await asyncio.sleep(_LOOK_S)


def _held(runtime: Runtime, launch: int, port: int | None, host: str | None) -> str | None:
    if port is not None and port_taken(port, host):
        pid = next((one.pid for one in who_listens(port, host) if one.pid), None)
        return f"port {port} is still taken{f' by pid {pid}' if pid else ''}"
    hardware: LiveHardware = runtime.live.get("hardware") or LiveHardware()
    mine = [one.process for one in hardware.processes if one.launch_id == launch]
    living = [one for one in mine if (stat := read_stat(one.pid)) is not None and stat.living]
    return f"pid {living[0].pid} of L{launch} is still on GPU {living[0].index}" if living else None


def _is_listed(runtime: Runtime, launch: int, ended: datetime) -> bool:
    """Whether the driver has not said since the end that the launch is off its GPUs: it frees memory a moment later."""
    hardware: LiveHardware = runtime.live.get("hardware") or LiveHardware()
    mine = any(one.launch_id == launch for one in hardware.processes)
    return mine and hardware.processes_at is not None and hardware.processes_at < ended
