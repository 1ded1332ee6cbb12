"""Claude Code: its events as version 2.1 sends them. PreCompact's plain output becomes instructions for the summary."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from sitrepd.agents import commands, doings, handover, waking
from sitrepd.agents.call import NOTHING, Answer, Call, Handler

_OVER = ("completed", "failed", "killed", "stopped")


async def session_start(call: Call) -> Answer:
    return await doings.begins(call, call.payload.text("source") or "startup", "SessionStart")


async def user_prompt_submit(call: Call) -> Answer:
    if call.payload.is_of_subagent or (prompt := call.payload.prompt) is None:
        return NOTHING
    return await doings.is_prompted(call, prompt, "UserPromptSubmit")


async def pre_compact(call: Call) -> Answer:
    row = await doings.is_about_to_be_compacted(call)
    return Answer(await asyncio.to_thread(handover.to_keep, call.runtime, row))


async def post_compact(call: Call) -> Answer:
    summary = call.payload.text("compact_summary")
    if summary:
        await doings.was_compacted(call, summary, call.payload.text("trigger"))
    return NOTHING


async def stop(call: Call) -> Answer:
    """With a background task that runs, such as a server that loads, the agent waits."""
    await doings.said(call, call.payload.text("last_assistant_message"))
    running = [task for task in call.payload.listing("background_tasks") if task.get("status") not in _OVER]
    if running:
        names = (str(task.get("description") or task.get("command") or task.get("id")) for task in running)
        await doings.waits(call, f"in the background: {', '.join(names)}")
    return NOTHING


async def notification(call: Call) -> Answer:
    if call.payload.text("notification_type") == "idle_prompt":
        await doings.waits(call, "waiting for the user")
    return NOTHING


async def post_tool_use(call: Call) -> Answer:
    """Only the shell is listened to. An agent that works on by itself is not left without what it missed."""
    if call.payload.text("tool_name") != "Bash":
        return NOTHING
    given, answered = call.payload.mapping("tool_input"), call.payload.fields.get("tool_response")
    await commands.ran(call, commands.of_tool(given, answered))
    return NOTHING if call.payload.is_of_subagent else await doings.makes_up(call, "PostToolUse")


async def session_end(call: Call) -> Answer:
    waking.no_more(call)
    await doings.ends(call)
    return NOTHING


EVENTS: Mapping[str, Handler] = {
    "session-start": Handler(session_start, "SessionStart"),
    "user-prompt-submit": Handler(user_prompt_submit),
    "pre-compact": Handler(pre_compact),
    "post-compact": Handler(post_compact),
    "stop": Handler(stop),
    "waiting": Handler(waking.waiting),
    "notification": Handler(notification),
    "post-tool-use": Handler(post_tool_use),
    "session-end": Handler(session_end),
}
