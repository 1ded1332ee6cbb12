"""Gemini CLI: context goes in at a start and before a prompt, and after its compression beside the summary."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sitrepd.agents import carrying, commands, doings, handover
from sitrepd.agents.call import NOTHING, Answer, Call, Handler, tasks
from sitrepd.agents.clients import claude_code
from sitrepd.agents.prompts import prompt_of

_SHELL = ("run_shell_command", "ShellTool", "Bash")
_SUMMARY = "<state_snapshot>"
# The first line of a hand-over, as it stands in a conversation.
_HANDED = re.compile(r"Sitrep C\d+ · .{0,400}? · handed over ")
_KNOWN = "agents_compressed"
_BEGUN = "agents_begun"
_MOST = 256


async def session_start(call: Call) -> Answer:
    """The checkpoint comes with the prompt that follows.

    What is given here goes in front of that prompt, and a message that begins so is left out when the conversation goes
    on another time, with the words of the user.
    """
    begun: dict[str, str] = call.runtime.live.setdefault(_BEGUN, {})
    if len(begun) >= _MOST:
        begun.clear()
    begun[call.place.conversation or ""] = call.payload.text("source") or "startup"
    await doings.is_there(call)
    return NOTHING


async def before_agent(call: Call) -> Answer:
    prompt = call.payload.prompt
    if prompt is None:
        return NOTHING
    source = call.runtime.live.setdefault(_BEGUN, {}).get(call.place.conversation or "")
    found = prompt_of(prompt)
    has_it = source is None and not await handover.is_lacking(call.runtime, call.session_id, call.place)
    if call.is_late:
        await doings.keep(call, found)
        return NOTHING
    if has_it or found.kind == "asking":
        return await doings.is_prompted(call, prompt, "BeforeAgent")
    await doings.keep(call, found)
    return await doings.begins(call, source or "startup", "BeforeAgent")


async def after_agent(call: Call) -> Answer:
    await doings.said(call, call.payload.text("prompt_response"))
    return NOTHING


async def pre_compress(call: Call) -> Answer:
    """It is told on ordinary turns too, so it is no proof that anything was compressed."""
    await doings.waits(call, "before a compression")
    return NOTHING


async def before_model(call: Call) -> Answer:
    """Each request, by its texts. Once they were compressed and hold no checkpoint any more, it goes with the summary.

    The client takes texts by their place, so only those up to the summary are answered: what comes after it, with the
    calls of tools, stays as it is. The summary stands in the request alone, so it is done for each of them.
    """
    texts = [str(one.get("content", "")) for one in _messages(call)]
    at = next((place for place, text in enumerate(texts) if _SUMMARY in text), None)
    if any(_HANDED.search(text) for place, text in enumerate(texts) if place != at):
        # Only now is it sure that what went with the prompt was not too late.
        call.runtime.live.setdefault(_BEGUN, {}).pop(call.place.conversation or "", None)
        return NOTHING
    if at is None:
        return NOTHING
    await _compressed(call, texts[at])
    told = f"{texts[at]}\n\n<hook_context>{await carrying.carried(call, 'compact')}</hook_context>"
    changed = [*_messages(call)[:at], {**_messages(call)[at], "content": told}]
    return Answer(output={"hookEventName": "BeforeModel", "llm_request": {"messages": changed}})


def _messages(call: Call) -> Sequence[Mapping[str, Any]]:
    found = call.payload.mapping("llm_request").get("messages")
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


async def _compressed(call: Call, summary: str) -> None:
    """That it was compressed, and what the summary lost, once for each summary."""
    known: dict[str, int] = call.runtime.live.setdefault(_KNOWN, {})
    name = call.place.conversation or ""
    if known.get(name) == hash(summary):
        return
    if len(known) >= _MOST:
        known.clear()
    known[name] = hash(summary)
    await handover.note_compaction(call.runtime, call.session_id, call.place)
    tasks(call.runtime).later(doings.was_compacted(call, summary, None))
    carrying.carry_anew(call)


async def after_tool(call: Call) -> Answer:
    if call.payload.text("tool_name") in _SHELL:
        given, answered = call.payload.mapping("tool_input"), call.payload.fields.get("tool_response")
        await commands.ran(call, commands.of_tool(given, answered))
    return NOTHING


EVENTS: Mapping[str, Handler] = {
    "session-start": Handler(session_start, "SessionStart"),
    "before-agent": Handler(before_agent),
    "after-agent": Handler(after_agent),
    "pre-compress": Handler(pre_compress),
    "before-model": Handler(before_model),
    "after-tool": Handler(after_tool),
    "session-end": claude_code.EVENTS["session-end"],
}
