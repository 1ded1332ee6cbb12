"""All checks of a launch at once, each in a thread of its own, within a time."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from sitrepd.errors import SitrepError
from sitrepd.hardware.live import LiveHardware
from sitrepd.launches.check.claimed import check_claims
from sitrepd.launches.check.context import check_context
from sitrepd.launches.check.division import check_division
from sitrepd.launches.check.draft import check_draft
from sitrepd.launches.check.flags import check_flags
from sitrepd.launches.check.gpus import check_gpu_count, check_leftovers
from sitrepd.launches.check.machine import check_log, check_shm
from sitrepd.launches.check.memory import check_memory
from sitrepd.launches.check.model import Check, Look, Subject
from sitrepd.launches.check.port import check_port
from sitrepd.launches.check.speculative import check_speculative
from sitrepd.launches.check.subject import subject_of
from sitrepd.launches.check.tried import check_tried
from sitrepd.launches.check.weights import check_draft_model, check_model
from sitrepd.launches.models import LaunchCreate

if TYPE_CHECKING:
    from sitrepd.runtime import Runtime

log = logging.getLogger(__name__)
ASKED_S = 60.0
BEFORE_A_LAUNCH_S = 1.0
AGAINST = ("warning", "error")
_ORDER = {"error": 0, "warning": 1, "note": 2, "ok": 3}

CHECKS: dict[str, Callable[[Subject, Look], Iterable[Check]]] = {
    "tried": check_tried,
    "flags": check_flags,
    "speculative": check_speculative,
    "port": check_port,
    "claims": check_claims,
    "model": check_model,
    "draft_model": check_draft_model,
    "draft": check_draft,
    "context": check_context,
    "division": check_division,
    "gpu_count": check_gpu_count,
    "leftovers": check_leftovers,
    "memory": check_memory,
    "shm": check_shm,
    "log": check_log,
}
# What these say may have changed when a launch that is planned for later begins; the others judge what is asked for.
OF_THE_MOMENT = {"tried", "port", "claims", "leftovers", "memory", "shm", "log"}


async def checks(
    runtime: Runtime, body: LaunchCreate, session_id: int | None, owner: str | None, timeout_s: float = ASKED_S
) -> list[Check]:
    """What speaks against a launch first; what was not done within the time is said as a note, and goes on."""
    hardware = runtime.live.get("hardware") or LiveHardware()
    look = Look(
        runtime.store, hardware, runtime.settings.data_dir / "flags", runtime.host_id, session_id, owner, ASKED_S
    )
    try:
        subject = await asyncio.to_thread(subject_of, body, hardware)
    except SitrepError as error:
        return [Check(name="command", level="error", text=error.detail)]
    tasks = {_in_thread(name, subject, look): name for name in CHECKS}
    done, late = await asyncio.wait(tasks, timeout=timeout_s)
    found = [check for task, name in tasks.items() if task in done for check in task.result()]
    found += [
        Check(name=tasks[task], level="note", text=f"The check {tasks[task]!r} took longer than {timeout_s:g} s.")
        for task in tasks
        if task in late
    ]
    return sorted(found, key=lambda check: _ORDER[check.level])


def _in_thread(name: str, subject: Subject, look: Look) -> asyncio.Future[list[Check]]:
    """Not in the loop's pool, whose threads the daemon's end waits for: an interpreter may take its time to answer."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[list[Check]] = loop.create_future()

    def settle(found: list[Check]) -> None:
        if not future.done():
            future.set_result(found)

    def work() -> None:
        found = _made(name, subject, look)
        # The loop may be closed by now: then nobody waits for this.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=work, name=f"sitrep-check-{name}", daemon=True).start()
    return future


def _made(name: str, subject: Subject, look: Look) -> list[Check]:
    """A check that breaks says so, and hinders neither the others nor the launch."""
    try:
        return list(CHECKS[name](subject, look))
    except Exception as error:
        log.exception("The check %s of a launch failed", name)
        return [Check(name=name, level="note", text=f"The check {name!r} could not be made: {error}.")]


async def before_a_launch(
    runtime: Runtime, body: LaunchCreate, session_id: int | None, owner: str | None
) -> list[Check]:
    """What speaks against it, in words, within a second; a launch is never held back by it."""
    found = await checks(runtime, body, session_id, owner, BEFORE_A_LAUNCH_S)
    return [check for check in found if check.level in AGAINST]
