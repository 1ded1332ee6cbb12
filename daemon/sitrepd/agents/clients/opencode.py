"""opencode: what our plug-in posts. A text for its system prompt stays the same, to the byte, while no fact changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from sitrepd.agents import carrying, commands, doings, handover
from sitrepd.agents.call import NOTHING, Answer, Call, Handler
from sitrepd.agents.prompts import prompt_of
from sitrepd.checkpoints.service import checkpoints
from sitrepd.notices.news import news as news_of


async def system(call: Call) -> Answer:
    """The checkpoint to carry; the same bytes again while no fact of the session has changed."""
    return Answer(await carrying.carried(call, "system"))


async def message(call: Call) -> Answer:
    """A message of the user; the answer says whether it asks for the state of things."""
    prompt, synthetic = call.payload.prompt, call.payload.fields.get("synthetic") is True
    if prompt is None:
        return NOTHING
    found = prompt_of(prompt, synthetic)
    await doings.keep(call, found)
    if found.kind == "asking":
        await checkpoints(call.runtime).make(call.session_id, "empty message")
        carrying.carry_anew(call)
    return Answer(found.kind)


async def compacting(call: Call) -> Answer:
    """The checkpoint for the summariser; the conversation itself gets it again by `system`."""
    row = await doings.is_about_to_be_compacted(call)
    made = checkpoints(call.runtime)
    text = await asyncio.to_thread(made.text, row, "md", handover.MOST_CHARACTERS - len(_BEFORE))
    return Answer(_BEFORE + text)


_BEFORE = (
    "The facts below are exact, from Sitrep. Carry directives, rejected options with their reasons, numbers with their "
    "units, commands, paths and ids over word for word; they go before what the conversation says from memory.\n\n"
)


async def compacted(call: Call) -> Answer:
    summary = call.payload.text("summary")
    if summary:
        await doings.was_compacted(call, summary, "auto" if call.payload.fields.get("auto") else None)
    return NOTHING


async def idle(call: Call) -> Answer:
    await doings.waits(call, "the agent is idle")
    return NOTHING


async def news(call: Call) -> Answer:
    """What has happened in the session since an event, of what is waited for."""
    told_since = call.payload.fields.get("since")
    since = told_since if isinstance(told_since, int) and not isinstance(told_since, bool) else None

    found = await news_of(call.runtime, call.session_id, since)
    told = "\n".join(f"{one.title}. {one.text}" for one in found.notices)
    return Answer(json.dumps({"since": found.since, "text": told}))


async def text(call: Call) -> Answer:
    """What the assistant said."""
    await doings.said(call, call.payload.text("text"))
    return NOTHING


async def tool(call: Call) -> Answer:
    given = call.payload.mapping("args")
    answered = {**call.payload.mapping("metadata"), "output": call.payload.fields.get("output")}
    await commands.ran(call, commands.of_tool(given, answered))
    return NOTHING


EVENTS: Mapping[str, Handler] = {
    "system": Handler(system, plain=True),
    "message": Handler(message),
    "compacting": Handler(compacting),
    "compacted": Handler(compacted),
    "idle": Handler(idle),
    "news": Handler(news),
    "text": Handler(text),
    "tool": Handler(tool),
}
