"""What is done when an agent begins, is prompted, waits, is compacted or ends; the same for all clients."""

from __future__ import annotations

import asyncio

from sqlmodel import Session

from sitrepd.agents import handover, messages, summaries, transcripts
from sitrepd.agents.call import NOTHING, Answer, Call, tasks
from sitrepd.agents.conversations import is_known, remember
from sitrepd.agents.prompts import Prompt, prompt_of
from sitrepd.checkpoints import echoes
from sitrepd.checkpoints.models import Checkpoint
from sitrepd.checkpoints.service import checkpoints
from sitrepd.facts import Scope, tell_word
from sitrepd.storage import ids

_STORED_AT_ONCE = messages.LONGEST
_CAUSE_MOST = 200


async def begins(call: Call, source: str, context_of: str | None) -> Answer:
    """The checkpoint for a conversation that begins, goes on, or was compacted a moment ago."""
    await _remember(call)
    if source == "resume" and (line := await handover.stands_already(call.runtime, call.session_id, call.place)):
        return Answer(line, context_of)
    text = await handover.hand_over(call.runtime, call.session_id, call.place, "session start", source)
    return Answer(text, context_of)


async def is_there(call: Call) -> None:
    """The conversation is known, and where it was seen."""
    await _remember(call)


async def is_prompted(call: Call, submitted: str, context_of: str) -> Answer:
    """Keep the message; hand the checkpoint over where the user asks by saying nothing, a dot or `status`, or where it
    is still to be handed over."""
    prompt = prompt_of(submitted)
    await keep(call, prompt)
    if call.is_late:
        return NOTHING
    if prompt.kind != "asking":
        return await makes_up(call, context_of)
    text = await handover.hand_over(call.runtime, call.session_id, call.place, "empty message")
    return Answer(text, context_of)


async def makes_up(call: Call, context_of: str) -> Answer:
    """The checkpoint, where its conversation was to have it before and has it not."""
    if call.is_late or not await handover.is_lacking(call.runtime, call.session_id, call.place):
        return NOTHING
    text = await handover.hand_over(call.runtime, call.session_id, call.place, "session start", "late")
    return Answer(text, context_of)


async def keep(call: Call, prompt: Prompt) -> None:
    """Keep a message word for word; a very long one is written while the client goes on."""
    keeping = messages.store(call.runtime, call.session_id, call.place, prompt)
    if len(prompt.text) > _STORED_AT_ONCE:
        tasks(call.runtime).later(keeping)
    else:
        await keeping
    _prove_later(call)
    if prompt.kind != "synthetic":
        call.runtime.activity.touch(call.session_id)


async def is_about_to_be_compacted(call: Call) -> Checkpoint:
    """The checkpoint that is made just before."""
    await _remember(call)
    await handover.note_compaction(call.runtime, call.session_id, call.place)
    made = await checkpoints(call.runtime).make(
        call.session_id, "before compaction", call.payload.text("trigger"), tasks(call.runtime).later
    )
    return made.checkpoint


async def was_compacted(call: Call, summary: str, trigger: str | None) -> None:
    """Keep the client's own summary, with what it lost."""
    row = await checkpoints(call.runtime).latest(call.session_id)
    missing = await asyncio.to_thread(summaries.lost, row.rendered["sections"], summary)
    told = {
        "client": call.place.client,
        "conversation": call.place.conversation,
        "trigger": trigger,
        "checkpoint": ids.public_id("C", row.id or 0),
        "summary": summary[: messages.LONGEST],
        "lost": missing,
    }

    def job(db: Session) -> None:
        scope = Scope(call.runtime.registry, f"observed:{call.place.client}", call.session_id)
        tell_word(db, scope, "compaction", told)

    await call.runtime.store.write_async(job)


async def waits(call: Call, cause: str) -> None:
    """The agent waits for something, or the user for the agent: one checkpoint, if a fact is new."""
    await _seen(call)
    _prove_later(call)
    await checkpoints(call.runtime).make(call.session_id, "idle", cause[:_CAUSE_MOST])


async def said(call: Call, text: str | None) -> None:
    """What the assistant answered: deliveries whose checkpoint it names have arrived."""
    _prove_later(call)
    if text:
        await echoes.echo(call.runtime, call.session_id, text)


async def ends(call: Call) -> None:
    """The conversation ends, or goes on elsewhere: what is known is written down for the next one."""
    await _remember(call, ended=True)
    await transcripts.prove(call.runtime, call.session_id, call.place)
    await checkpoints(call.runtime).make(call.session_id, "session end", call.payload.text("reason"))


async def _remember(call: Call, ended: bool = False) -> None:
    await call.runtime.store.write_async(lambda db: remember(db, call.place, call.session_id, ended))


async def _seen(call: Call) -> None:
    """As `remember`, without a commit where nothing would change."""

    def known() -> bool:
        with call.runtime.store.read() as db:
            return is_known(db, call.place, call.session_id)

    if not await asyncio.to_thread(known):
        await _remember(call)


def _prove_later(call: Call) -> None:
    tasks(call.runtime).later(transcripts.prove(call.runtime, call.session_id, call.place))
