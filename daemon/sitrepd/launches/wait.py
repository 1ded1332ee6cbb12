"""Waiting until a launch has come to a state or a phase."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass

from sqlmodel import Session, select

from sitrepd.errors import Conflict, InvalidFact
from sitrepd.launches import autopsy
from sitrepd.launches.engines.base import PHASE
from sitrepd.launches.models import Launch, LaunchPhase
from sitrepd.launches.states import ALIVE, ENDED, STATES
from sitrepd.runtime import Runtime
from sitrepd.storage import ids

WANTED = (*STATES, "ended")
_LOOK_ANYWAY_S = 5.0
_CAUSE_WITHIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Reached:
    """`reached` is the first of what was waited for that holds, None while none does; `over` when none ever will."""

    row: Launch
    reached: str | None
    over: bool


def check_wanted(wanted: Sequence[str]) -> None:
    """Raises InvalidFact for what is neither a state nor a phase."""
    for one in wanted:
        if one not in WANTED and one not in PHASE:
            raise InvalidFact(
                f"for={one!r} is no state and no phase. States: {', '.join(WANTED)}. Phases: {', '.join(PHASE)}."
            )


async def wait(runtime: Runtime, number: int, wanted: Sequence[str], timeout_s: float) -> Reached:
    """Until one of `wanted` holds or none will any more, at most so long; woken by commits, not by a clock.

    Of a failure that was only just seen, the cause is waited for too.
    """
    deadline = asyncio.get_running_loop().time() + timeout_s
    cause_by = 0.0
    found = look(runtime, number, wanted)
    async with aclosing(runtime.store.bell.listen(_LOOK_ANYWAY_S)) as bell:
        while True:
            # Looked at once more after listening has begun: what was committed in between did not ring for us.
            waiting = asyncio.ensure_future(anext(bell, None))
            try:
                await asyncio.sleep(0)
                found = look(runtime, number, wanted)
                now = asyncio.get_running_loop().time()
                if autopsy.is_due(found.row):
                    cause_by = cause_by or min(deadline, now + _CAUSE_WITHIN_S)
                ends = found.reached is not None or found.over
                left = (cause_by if ends and autopsy.is_due(found.row) else deadline) - now
                if left <= 0 or (ends and not autopsy.is_due(found.row)):
                    return found
                done, _ = await asyncio.wait([waiting], timeout=left)
            finally:
                if not waiting.done():
                    waiting.cancel()
                    await asyncio.gather(waiting, return_exceptions=True)
            if done and waiting.result() is None:
                return found


def look(runtime: Runtime, number: int, wanted: Sequence[str]) -> Reached:
    """How it stands now."""
    with runtime.store.read() as db:
        row = db.get(Launch, number)
        assert row is not None
        phases = _begun(db, number) if any(one in PHASE and one not in WANTED for one in wanted) else set()
    reached = next((one for one in wanted if holds(row, phases, one)), None)
    over = row.ended_at is not None or row.state in ENDED
    if reached is None and not over and not row.watched:
        raise Conflict(
            f"{ids.public_id('L', number)} is not a process that this daemon follows; it was told to be "
            f"{row.state or 'in no state'}, and nobody will see it change."
        )
    return Reached(row, reached, over)


def _begun(db: Session, number: int) -> set[str]:
    return set(db.exec(select(LaunchPhase.name).where(LaunchPhase.launch_id == number)).all())


def holds(row: Launch, phases: set[str], wanted: str) -> bool:
    """A state of a start holds when it is reached or passed, a phase when it has begun; `failed` includes lost."""
    ended = row.ended_at is not None or row.state in ENDED
    if wanted == "ended":
        return ended
    if wanted == "failed":
        return row.state in ("failed", "lost")
    if wanted in ENDED:
        return row.state == wanted
    if wanted in ALIVE:
        return not ended and row.state in ALIVE and ALIVE.index(row.state) >= ALIVE.index(wanted)
    return wanted in phases
