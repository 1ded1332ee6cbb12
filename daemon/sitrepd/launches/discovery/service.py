"""Looks for servers again and again, and follows each new one as a launch."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from sitrepd.clock import utc_now
from sitrepd.launches.discovery import adopt
from sitrepd.launches.discovery.details import Details, look
from sitrepd.launches.discovery.find import Found, Server, find
from sitrepd.launches.discovery.leftovers import Ended, Orphan, ended_launches, launch_in, marked_launch, orphans
from sitrepd.launches.discovery.table import Table, ancestors, read_table
from sitrepd.launches.discovery.view import ServersOut, launches_of, view
from sitrepd.launches.launchers.base import ProcessIdentity
from sitrepd.launches.models import Launch
from sitrepd.launches.ports import ports_of
from sitrepd.launches.processes import boot_id
from sitrepd.launches.service import Launches
from sitrepd.runtime import Runtime
from sitrepd.services import Service
from sitrepd.storage import ids

log = logging.getLogger(__name__)
_FRESH_S = 30.0
_SETTLES_S = 5.0
_HELP = frozenset({"-h", "--help", "--version"})


class Discovery(Service):
    """`runtime.live["servers"]` is what was found last, `runtime.live["benchmarks_running"]` what is being measured."""

    name = "discovery"

    def __init__(self, runtime: Runtime, launches: Launches) -> None:
        self.runtime = runtime
        self.launches = launches
        self._known: set[tuple[int, int, str]] | None = None
        self._details: dict[ProcessIdentity, tuple[float, Details]] = {}
        self._were: dict[tuple[int, int], int] = {}
        self._busy = asyncio.Lock()
        runtime.live["discovery"] = self

    async def run(self) -> None:
        """Leave it to the scheduler."""
        await self.launches.restored.wait()
        scheduler = self.runtime.scheduler
        assert scheduler is not None
        scheduler.add_job(
            self.look, "interval", seconds=self.runtime.settings.discover_s, id="launches.discover",
            next_run_time=utc_now(), replace_existing=True, misfire_grace_time=None,
        )  # fmt: skip
        try:
            await asyncio.Event().wait()
        finally:
            with suppress(LookupError):  # the scheduler may be down already
                scheduler.remove_job("launches.discover")

    async def look(self) -> ServersOut:
        """One look at all processes; new servers become launches."""
        async with self._busy:
            found = await asyncio.to_thread(lambda: find(read_table()))
            told = await asyncio.to_thread(self._details_of, found.servers)
            await self._consider_all(found, told)
            out = await asyncio.to_thread(self._view, found, told)
            self.runtime.live["servers"] = out
            running = self.runtime.live["benchmarks_running"] = [one.model_dump() for one in out.benchmarks]
            files = self.runtime.live.get("benchmark_files")
            if files is not None and running:
                await files.began(running)
            return out

    # --- adopting ------------------------------------------------------------------------------------------------

    async def _consider_all(self, found: Found, told: Mapping[ProcessIdentity, Details]) -> None:
        owners = self.launches.owners({pid: process.stat for pid, process in found.table.items()})
        adopts = self.runtime.settings.adopt
        for server in found.servers:
            details, number = told[server.main.identity], owners.get(server.main.pid)
            if not server.embedded and await self.launches.inherit(server, details, number):
                continue
            if number is not None and details.readable and not server.embedded:
                await self.launches.understand(number, server, details)
            elif number is None and adopts:
                await self._consider(found, server, details)
        if adopts:
            await self._find_sessions()

    async def _consider(self, found: Found, server: Server, details: Details) -> None:
        if not self._is_wanted(server, details):
            return
        if await asyncio.to_thread(self._is_of_a_start, found.table, server, details):
            return
        identity = server.main.identity
        known = await self._identities()
        if (identity.pid, identity.start_ticks, identity.boot_id) in known:
            return
        number = await self.launches.adopt(server, details)
        known.add((identity.pid, identity.start_ticks, identity.boot_id))
        log.info("L%d is process %d, which was found", number, identity.pid)

    async def _find_sessions(self) -> None:
        """A session may be opened, or a folder tied to it, after its server was found."""
        with self.runtime.store.read() as db:
            found = adopt.homeless(db)
        for number, session_id in found:
            await self.runtime.store.write_async(partial(adopt.give_home, number=number, session_id=session_id))

    def _is_wanted(self, server: Server, details: Details) -> bool:
        """Another user's may be listed, but neither followed nor stopped."""
        if server.embedded or not details.readable or _HELP & set(server.main.argv):
            return False
        below = self.runtime.settings.adopt_below
        return below is None or (details.cwd is not None and Path(details.cwd).is_relative_to(below))

    def _is_of_a_start(self, table: Table, server: Server, details: Details) -> bool:
        """Whether we started it, though its row is not written yet, or its launch only just ended."""
        number = self._started_for(table, server, details)
        if number is None:
            return False
        with self.runtime.store.read() as db:
            row = db.get(Launch, number)
        if row is None or row.ended_at is None or self.launches.is_starting(number):
            return True
        return (utc_now() - row.ended_at).total_seconds() < _SETTLES_S

    def _started_for(self, table: Table, server: Server, details: Details) -> int | None:
        """By the mark in its environment, else by the supervisor above it."""
        folder = self.runtime.settings.launches_dir
        number = marked_launch(details.env, folder)
        if number is not None:
            return number
        for above in ancestors(table, server.main.pid):
            if len(above.argv) > 2 and above.argv[-2].endswith("supervise.py"):
                return launch_in(above.argv[-1], folder)
        return None

    async def _identities(self) -> set[tuple[int, int, str]]:
        """Main processes of all launches of this boot, whether they are over or not."""
        if self._known is None:
            self._known = await asyncio.to_thread(self._stored_identities)
        return self._known

    def _stored_identities(self) -> set[tuple[int, int, str]]:
        from sqlmodel import col, select

        with self.runtime.store.read() as db:
            stored = db.exec(select(Launch.process).where(col(Launch.watched).is_(True))).all()
        found = [(process or {}).get("identity") or {} for process in stored]
        return {(one["pid"], one["start_ticks"], one["boot_id"]) for one in found if one.get("boot_id") == boot_id()}

    # --- looking -------------------------------------------------------------------------------------------------

    def _details_of(self, servers: Iterable[Server]) -> dict[ProcessIdentity, Details]:
        """Read anew now and then; ports each time, for they come last."""
        now = time.monotonic()
        told: dict[ProcessIdentity, tuple[float, Details]] = {}
        for server in servers:
            identity = server.main.identity
            at, details = self._details.get(identity, (0.0, None))
            if details is None or now - at > _FRESH_S:
                at, details = now, look(server)
            elif not details.ports:
                details = replace(details, ports=tuple(sorted(ports_of(identity.pid))))
            told[identity] = (at, details)
        self._details = told
        return {identity: details for identity, (_, details) in told.items()}

    def _view(self, found: Found, told: Mapping[ProcessIdentity, Details]) -> ServersOut:
        owners = self.launches.owners({pid: process.stat for pid, process in found.table.items()})
        gpu = gpu_bytes(self.runtime)
        remembered = self._remember(found.table, owners)
        folder = self.runtime.settings.launches_dir
        left = orphans(found, self._ended(), self._alive(found, owners), gpu, folder, remembered)
        out = view(found, told, owners, self.launches.live, gpu, left)
        known = {one.launch for one in out.servers}
        watched = [one for one in self.launches.followed() if ids.public_id("L", one.number) not in known]
        out.servers += launches_of(found, watched, self.launches.live, gpu)
        return out

    def _remember(self, table: Table, owners: Mapping[int, int]) -> dict[int, int]:
        """Launch numbers by pid, also of those whose launch has lost them since."""
        living = {(pid, process.stat.start_ticks) for pid, process in table.items()}
        self._were = {key: number for key, number in self._were.items() if key in living}
        self._were |= {(pid, table[pid].stat.start_ticks): number for pid, number in owners.items() if pid in table}
        return {pid: number for (pid, _), number in self._were.items()}

    def _ended(self) -> list[Ended]:
        with self.runtime.store.read() as db:
            return ended_launches(db, self.runtime.host_id)

    def _alive(self, found: Found, owners: Mapping[int, int]) -> set[int]:
        """Processes of servers that live, also of those that are not followed."""
        mains = {server.main.pid for server in found.servers}
        below = {pid for pid in found.table if any(above.pid in mains for above in ancestors(found.table, pid))}
        ranks = {rank.pid for server in found.servers for rank in server.ranks}
        return set(owners) | mains | below | ranks


def gpu_bytes(runtime: Runtime) -> dict[int, int | None]:
    """Bytes of GPU memory by pid, of all GPUs together, as of the last list of their processes."""
    held: dict[int, int | None] = {}
    for one in getattr(runtime.live.get("hardware"), "processes", ()):
        process = one.process
        held[process.pid] = (held.get(process.pid) or 0) + (process.used_bytes or 0) or None
    return held


__all__ = ["Discovery", "Orphan", "gpu_bytes"]
