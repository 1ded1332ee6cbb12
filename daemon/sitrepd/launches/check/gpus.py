"""Whether there are as many GPUs as the command wants, and what is left on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlmodel import Session

from sitrepd.claims.overlap import ranges
from sitrepd.hardware.live import Owned
from sitrepd.hardware.owners import read_stat
from sitrepd.launches.check.model import GIB, Check, Look, Subject, gib
from sitrepd.launches.models import ALIVE, Launch

_LITTLE_BYTES = GIB // 2


def check_gpu_count(subject: Subject, look: Look) -> Iterable[Check]:
    wanted = subject.gpus
    if not subject.is_server or not wanted.count or not look.hardware.facts:
        return
    if len(wanted.used) == wanted.count:
        yield Check(name="gpu_count", level="ok", text=f"{wanted.count} GPUs are wanted: {ranges(wanted.used)}.")
        return
    facts = subject.facts
    limited = f" (CUDA_VISIBLE_DEVICES={wanted.said})" if wanted.said is not None else ""
    sizes = {"tp": facts.tp_size, "pp": facts.pp_size, "dp": facts.dp_size}
    said = " x ".join(f"{name} {size}" for name, size in sizes.items() if size > 1) or "tp 1"
    text = f"{said} wants {wanted.count} GPUs; {len(wanted.visible)} of {len(look.hardware.facts)} can be seen{limited}"
    base = facts.flags.get("base_gpu_id")
    text += f", of which --base-gpu-id {base} leaves {len(wanted.used)}." if base else "."
    most = max((size for size in (1, 2, 4, 8, 16) if size <= len(wanted.visible)), default=0)
    fix = f"Write --tp-size {most}" if most else "Set CUDA_VISIBLE_DEVICES to GPUs that exist"
    yield Check(
        name="gpu_count", level="error", text=text, fix=f"{fix}, or let it see more GPUs." if most else f"{fix}."
    )


def check_leftovers(subject: Subject, look: Look) -> Iterable[Check]:
    """Processes on the wanted GPUs that belong to no living launch."""
    wanted = set(subject.gpus.used)
    here = [owned for owned in look.hardware.processes if owned.process.index in wanted]
    if not here:
        if wanted and look.hardware.processes_at is not None:
            yield Check(name="leftovers", level="ok", text=f"No other process is on GPU {ranges(wanted)}.")
        return
    with look.store.read() as db:
        strays = [owned for owned in here if not _lives(db, owned)]
    for pid in dict.fromkeys(owned.process.pid for owned in strays):
        mine = [owned for owned in strays if owned.process.pid == pid]
        if mine[0].name is None or read_stat(pid, look.proc) is not None:
            yield _stray(pid, mine)


def _lives(db: Session, owned: Owned) -> bool:
    row = db.get(Launch, owned.launch_id) if owned.launch_id is not None else None
    return row is not None and row.ended_at is None and row.state in ALIVE


def _stray(pid: int, mine: Sequence[Owned]) -> Check:
    one = mine[0]
    held = sum(owned.process.used_bytes or 0 for owned in mine)
    known = any(owned.process.used_bytes is not None for owned in mine)
    of = f"was left by L{one.launch_id}, which has ended" if one.launch_id else "belongs to no launch"
    text = f"pid {pid} ({one.name or 'of another user or container'}) holds {gib(held) if known else 'memory'} "
    text += f"of GPU {ranges(owned.process.index for owned in mine)} and {of}."
    little = known and held < _LITTLE_BYTES
    return Check(
        name="leftovers",
        level="note" if little else "warning",
        text=text,
        fix=f"See what it is (ps -fp {pid}); if nobody needs it: kill {pid}",
        ids=[f"L{one.launch_id}"] if one.launch_id else [],
    )
