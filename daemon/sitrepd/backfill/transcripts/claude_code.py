"""Claude Code's transcripts: JSON lines, of which many are its own notes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sitrepd.agents.commands import Ran, of_tool
from sitrepd.agents.prompts import prompt_of
from sitrepd.backfill.found import key_of
from sitrepd.backfill.transcripts.conversation import Conversation, Done, Said, instant, texts

CLIENT = "claude-code"
_COMMAND = re.compile(r"<command-name>(.*?)</command-name>(?:.*?<command-args>(.*?)</command-args>)?", re.DOTALL)
_TYPED = re.compile(r"\s*<bash-input>(.*)</bash-input>\s*", re.DOTALL)
_PRINTED = re.compile(r"\s*<bash-stdout>(.*?)</bash-stdout>\s*(?:<bash-stderr>(.*?)</bash-stderr>)?\s*", re.DOTALL)
# Notes that the client puts beside what the user wrote.
_BESIDE = re.compile(
    r"\s*<(?:system-reminder|ide_\w+|local-command-\w+|bash-std\w+)\b|\s*\[Request interrupted by user"
)
_EXIT = re.compile(r"^(?:Error: )?Exit code (-?\d+)\b")
_TASK = re.compile(r"<tool-use-id>([^<]+)</tool-use-id>")
_TASK_ENDED = re.compile(r"\(exit code (-?\d+)\)")


def is_line(told: Any) -> bool:
    """Whether a line of a file is one of such a transcript."""
    return isinstance(told, dict) and isinstance(told.get("sessionId"), str) and isinstance(told.get("type"), str)


def read(path: str, lines: Iterable[bytes]) -> tuple[list[Conversation], int]:
    """The conversations of a file, by their ids, and how many of its lines were no JSON."""
    found: dict[str, _Reader] = {}
    broken = 0
    for line in lines:
        if not line.strip():
            continue
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            broken += 1
            continue
        if is_line(told):
            name = told["sessionId"]
            found.setdefault(name, _Reader(Conversation(CLIENT, name, path))).take(told)
    return [reader.conversation for reader in found.values()], broken


class _Reader:
    """Takes the lines of a conversation in their order; a command is done once its answer has come."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self._asked: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._done: dict[str, Done] = {}
        self._typed: tuple[str, str, datetime] | None = None

    def take(self, told: Mapping[str, Any]) -> None:
        at = instant(told.get("timestamp"))
        if at is None:
            return
        if isinstance(told.get("cwd"), str) and self.conversation.folder is None:
            self.conversation.folder = told["cwd"]
        message = told.get("message") if isinstance(told.get("message"), dict) else {}
        assert isinstance(message, dict)
        kind, content = told["type"], message.get("content")
        if kind == "assistant":
            self._asks(told, content)
        elif kind == "user":
            self._answered(told, content, at)
            self._say(told, content, at)
        elif kind == "attachment" and isinstance(told.get("attachment"), dict):
            self._queued(told, told["attachment"], at)

    def _asks(self, told: Mapping[str, Any], content: Any) -> None:
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and block.get("type") == "tool_use" and block.get("name") == "Bash":
                given = block.get("input")
                if isinstance(given, dict) and isinstance(block.get("id"), str):
                    self._asked[block["id"]] = (told, given)

    def _answered(self, told: Mapping[str, Any], content: Any, at: datetime) -> None:
        for block in content if isinstance(content, list) else ():
            if not (isinstance(block, dict) and block.get("type") == "tool_result"):
                continue
            name = block.get("tool_use_id")
            asked = self._asked.pop(name, None) if isinstance(name, str) else None
            if asked is not None:
                self._add(str(name), asked, told.get("toolUseResult"), block, at)

    def _add(
        self, name: str, asked: tuple[Mapping[str, Any], Mapping[str, Any]], result: Any, block: Mapping[str, Any],
        at: datetime,
    ) -> None:  # fmt: skip
        begun, given = asked
        printed = "\n".join(texts(block.get("content")))
        answered = result if isinstance(result, dict) and ("stdout" in result or "stderr" in result) else printed
        ran = of_tool(given, answered)
        if ran is None:
            return
        failed = _EXIT.match(printed) if block.get("is_error") else None
        background = bool(given.get("run_in_background")) or (
            isinstance(result, dict) and result.get("backgroundTaskId")
        )
        code = int(failed[1]) if failed else None if block.get("is_error") or background else 0
        folder = ran.cwd or (begun["cwd"] if isinstance(begun.get("cwd"), str) else None)
        done = Done(
            key_of(CLIENT, "command", name), instant(begun.get("timestamp")) or at,
            replace(ran, exit_code=code, cwd=folder), at,
        )  # fmt: skip
        self._done[name] = done
        self.conversation.done.append(done)

    def _say(self, told: Mapping[str, Any], content: Any, at: datetime) -> None:
        if told.get("isSidechain") or told.get("isMeta") or told.get("isCompactSummary") or "toolUseResult" in told:
            return
        if told.get("isVisibleInTranscriptOnly") or told.get("repeatsCompactSummary"):
            return
        whole = list(texts(content))
        if whole and self._typed_by_hand(whole[0], told, at):
            return
        own = [one for one in whole if not _BESIDE.match(one)]
        if own or (isinstance(content, str) and not content.strip()):
            self._message("\n".join(own), told, at)

    def _message(self, text: str, told: Mapping[str, Any], at: datetime) -> None:
        origin = told.get("origin") if isinstance(told.get("origin"), dict) else {}
        assert isinstance(origin, dict)
        made = told.get("promptSource") == "system" or origin.get("kind") not in (None, "user", "human")
        self._task_ended(text)
        slash = _COMMAND.search(text) if text.lstrip().startswith("<command-") else None
        if slash is not None:
            text = f"{slash[1].strip()} {(slash[2] or '').strip()}".strip()
        prompt = prompt_of(text, made)
        name = told.get("uuid") or [self.conversation.id, at]
        self.conversation.said.append(
            Said(key_of(CLIENT, "message", name), at, prompt.text, prompt.kind == "synthetic")
        )  # fmt: skip

    def _queued(self, told: Mapping[str, Any], attachment: Mapping[str, Any], at: datetime) -> None:
        """What the user typed while the agent was at work."""
        if attachment.get("type") != "queued_command" or told.get("isSidechain"):
            return
        text = "\n".join(one for one in texts(attachment.get("prompt")) if not _BESIDE.match(one))
        if text:
            made = "system" if attachment.get("commandMode") not in (None, "prompt") else None
            self._message(text, {"uuid": told.get("uuid"), "promptSource": made}, at)

    def _task_ended(self, text: str) -> None:
        """A command in the background ends with a notification that names it."""
        task, ended = _TASK.search(text), _TASK_ENDED.search(text)
        done = self._done.get(task[1].strip()) if task and text.lstrip().startswith("<task-notification>") else None
        if done is not None and ended is not None:
            done.ran = replace(done.ran, exit_code=int(ended[1]))

    def _typed_by_hand(self, text: str, told: Mapping[str, Any], at: datetime) -> bool:
        """A command that the user ran with `!`, in one line, and what it printed, in the next."""
        if typed := _TYPED.fullmatch(text):
            self._typed = (key_of(CLIENT, "command", told.get("uuid") or [self.conversation.id, at]), typed[1], at)
            return True
        printed = _PRINTED.fullmatch(text)
        if printed is not None and self._typed is not None:
            name, command, begun = self._typed
            self._typed = None
            given: dict[str, Any] = {"command": command}
            ran: Ran | None = of_tool(given, {"stdout": printed[1], "stderr": printed[2] or ""})
            if ran is not None:
                folder = told["cwd"] if isinstance(told.get("cwd"), str) else None
                self.conversation.done.append(Done(name, begun, replace(ran, cwd=folder), at))
        return printed is not None
