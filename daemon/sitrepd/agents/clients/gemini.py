"""Gemini CLI: context goes in at a start and before a prompt; nothing goes in after its compression."""

from __future__ import annotations

from collections.abc import Mapping

from sitrepd.agents import commands, doings
from sitrepd.agents.call import NOTHING, Answer, Call, Handler
from sitrepd.agents.clients import claude_code

_SHELL = ("run_shell_command", "ShellTool", "Bash")


async def before_agent(call: Call) -> Answer:
    prompt = call.payload.prompt
    return NOTHING if prompt is None else await doings.is_prompted(call, prompt, "BeforeAgent")


async def after_agent(call: Call) -> Answer:
    await doings.said(call, call.payload.text("prompt_response"))
    return NOTHING


async def pre_compress(call: Call) -> Answer:
    """It is told on ordinary turns too, so it is no proof that anything was compressed."""
    await doings.waits(call, "before a compression")
    return NOTHING


async def after_tool(call: Call) -> Answer:
    if call.payload.text("tool_name") in _SHELL:
        given, answered = call.payload.mapping("tool_input"), call.payload.fields.get("tool_response")
        await commands.ran(call, commands.of_tool(given, answered))
    return NOTHING


EVENTS: Mapping[str, Handler] = {
    "session-start": claude_code.EVENTS["session-start"],
    "before-agent": Handler(before_agent),
    "after-agent": Handler(after_agent),
    "pre-compress": Handler(pre_compress),
    "after-tool": Handler(after_tool),
    "session-end": claude_code.EVENTS["session-end"],
}
