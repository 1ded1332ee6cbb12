"""What was found, as the API tells it; secrets left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field

from sitrepd.clock import utc_now
from sitrepd.launches.discovery.details import Details, user_of
from sitrepd.launches.discovery.find import Found, Server
from sitrepd.launches.discovery.leftovers import Orphan
from sitrepd.launches.discovery.table import ancestors, uid_of
from sitrepd.launches.launchers.base import ProcessIdentity
from sitrepd.launches.ports import ports_of
from sitrepd.launches.processes import read_cwd, started_at
from sitrepd.launches.watch import Watch
from sitrepd.redact import redact_argv
from sitrepd.storage import ids


class RankOut(BaseModel):
    """A worker process of a server."""

    pid: int
    title: str
    gpu_memory_bytes: int | None = None


class ServerOut(BaseModel):
    """A server on this machine; what is absent may not be read, or is not known."""

    pid: int = Field(description="Of its main process.")
    kind: str = Field(description="sglang, vllm, llama.cpp; generic for a launch of anything else.")
    launch: str | None = Field(None, description="The launch that it is followed as.")
    state: str | None = Field(None, description="Of that launch, at this moment.")
    readable: bool = Field(description="False for another user's, of which only this much may be seen.")
    embedded: bool = Field(False, description="An engine inside a program that is no server of a known kind.")
    user: str | None = None
    argv: list[str] = Field(default_factory=list)
    cwd: str | None = None
    interpreter: str | None = None
    started_at: datetime
    model: str | None = None
    port: int | None = Field(None, description="As its command says, or its engine's own.")
    listening: list[int] = Field(default_factory=list, description="Ports that its main process listens on now.")
    log_path: str | None = None
    log_problem: str | None = None
    container: str | None = None
    ranks: list[RankOut] = Field(default_factory=list)
    processes: int = Field(1, description="All of its processes.")
    gpu_memory_bytes: int | None = Field(None, description="Of all of its processes.")


class OrphanOut(BaseModel):
    """Processes of a start that is over, which still hold something."""

    pids: list[int]
    names: list[str]
    launch: str | None = Field(None, description="The launch that they are left of.")
    user_ids: list[int] = Field(default_factory=list)
    started_at: datetime
    gpu_memory_bytes: int | None = None
    ports: list[int] = Field(default_factory=list)
    command: str = Field(description="What ends them.")


class BenchmarkRunning(BaseModel):
    """A benchmark that runs on this machine now."""

    pid: int
    name: str
    argv: list[str]
    cwd: str | None = None
    started_at: datetime


class ServersOut(BaseModel):
    """All that was found in one look at the processes."""

    at: datetime
    servers: list[ServerOut]
    orphans: list[OrphanOut]
    benchmarks: list[BenchmarkRunning]


def view(
    found: Found,
    told: Mapping[ProcessIdentity, Details],
    owners: Mapping[int, int],
    live: Mapping[int, Any],
    gpu: Mapping[int, int | None],
    left: Sequence[Orphan],
) -> ServersOut:
    """`owners` are launch numbers by pid, `live` the moments of launches, `gpu` bytes by pid."""
    return ServersOut(
        at=utc_now(),
        servers=[_server(found, one, told[one.main.identity], owners, live, gpu) for one in found.servers],
        orphans=[_orphan(one) for one in left],
        benchmarks=[
            BenchmarkRunning(
                pid=one.process.pid,
                name=one.name,
                argv=redact_argv(list(one.process.argv)),
                cwd=read_cwd(one.process.pid),
                started_at=started_at(one.process.stat.start_ticks),
            )
            for one in found.benchmarks
        ],
    )


def _server(
    found: Found,
    server: Server,
    details: Details,
    owners: Mapping[int, int],
    live: Mapping[int, Any],
    gpu: Mapping[int, int | None],
) -> ServerOut:
    pid = server.main.pid
    number = owners.get(pid)
    tree = {pid, *(rank.pid for rank in server.ranks)} | _below(found, pid)
    held = [gpu[one] or 0 for one in tree if one in gpu]
    return ServerOut(
        pid=pid,
        kind=server.kind,
        launch=ids.public_id("L", number) if number else None,
        state=getattr(live.get(number or 0), "state", None),
        readable=details.readable,
        embedded=server.embedded,
        user=details.user,
        argv=redact_argv(list(server.main.argv)),
        cwd=details.cwd,
        interpreter=details.interpreter,
        started_at=details.started_at,
        model=details.facts.model_path,
        port=details.port if not server.embedded else None,
        listening=list(details.ports),
        log_path=details.log.path,
        log_problem=details.log.problem,
        container=details.container.name if details.container else None,
        ranks=[RankOut(pid=one.pid, title=one.title, gpu_memory_bytes=gpu.get(one.pid)) for one in server.ranks],
        processes=len(tree),
        gpu_memory_bytes=sum(held) if held else None,
    )


def launches_of(
    found: Found, watches: Iterable[Watch], live: Mapping[int, Any], gpu: Mapping[int, int | None]
) -> list[ServerOut]:
    """Launches whose processes do not say by their words which server they are."""
    told = []
    for watch in watches:
        process = found.table.get(watch.launched.identity.pid)
        if process is None:
            continue
        tree = {process.pid} | _below(found, process.pid)
        held = [gpu[one] or 0 for one in tree if one in gpu]
        out = ServerOut(
            pid=process.pid,
            kind=watch.engine.name,
            launch=ids.public_id("L", watch.number),
            state=getattr(live.get(watch.number), "state", None),
            readable=True,
            user=user_of(uid_of(process.pid)),
            argv=redact_argv(list(process.argv)),
            cwd=read_cwd(process.pid),
            started_at=watch.launched.started_at,
            model=watch.facts.model_path,
            port=watch.facts.port,
            listening=sorted(set().union(*(ports_of(pid) for pid in tree))),
            log_path=str(watch.follower.path),
            processes=len(tree),
            gpu_memory_bytes=sum(held) if held else None,
        )
        told.append(out)
    return told


def _below(found: Found, pid: int) -> set[int]:
    return {one for one in found.table if any(above.pid == pid for above in ancestors(found.table, one))}


def _orphan(one: Orphan) -> OrphanOut:
    return OrphanOut(
        pids=one.pids,
        names=one.names,
        launch=ids.public_id("L", one.launch) if one.launch else None,
        user_ids=sorted({uid for pid in one.pids if (uid := uid_of(pid)) is not None}),
        started_at=min(started_at(process.stat.start_ticks) for process in one.processes),
        gpu_memory_bytes=one.gpu_bytes,
        ports=list(one.ports),
        command=one.command,
    )
