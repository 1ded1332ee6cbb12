"""A model that answers from a script, for clients that speak Anthropic Messages, OpenAI chat or responses, or Gemini."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SUMMARY = "SUMMARY OF THE STAND-IN: the user tunes a server."
_SUMMARISERS = (
    "You are performing a CONTEXT CHECKPOINT COMPACTION", "You are a context summarization agent",
    "Respond with TEXT ONLY. Do NOT call any tools", "You are a specialized system component responsible for distilling",
)  # fmt: skip
_TITLES = ("You are a title generator", "Generate a title for this conversation")


@dataclass(frozen=True)
class Turn:
    """What the agent's next request is answered: a text, or one made from the request; or a call of a tool."""

    say: str | Callable[[str], str] = "ok"
    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    tokens: int = 1000
    """What the answer says that the request was long: near the limit of the context, the client compacts."""


@dataclass(frozen=True)
class Asked:
    """One request: of the agent, of its summariser, or of what else a client asks a model for (titles)."""

    kind: str
    parts: tuple[str, ...]
    tools: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(self.parts)


def names_the_checkpoint(text: str) -> str:
    """As an agent answers that was asked to name what it got."""
    found = re.findall(r"Sitrep (C\d+) ·", text)
    return f"I go on from {found[-1]}." if found else "I was given no checkpoint."


class Model:
    """`asked` has all requests; `turns` are used up by those of the agent."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.asked: list[Asked] = []
        self.lock = threading.Lock()

    def of(self, kind: str) -> list[Asked]:
        with self.lock:
            return [one for one in self.asked if one.kind == kind]

    def take(self, body: dict[str, Any]) -> tuple[Asked, Turn]:
        heads = (body.get("system"), body.get("instructions"), (body.get("systemInstruction") or {}).get("parts"))
        parts = tuple(text for head in heads for text in _texts(head))
        parts += tuple(text for one in _messages(body) for text in _texts(_content(one)))
        last = parts[-1] if parts else ""
        kind = "agent"
        # A hook may have its say behind the question.
        if any(word in part for word in _SUMMARISERS for part in (*parts[:1], *parts[-3:])):
            kind = "summary"
        elif any(parts and (parts[0].startswith(word) or word in last) for word in _TITLES) or not body.get("tools"):
            kind = "other"
        tools = tuple(str(one.get("name") or one.get("function", {}).get("name")) for one in _tools(body))
        asked = Asked(kind, parts, tools)
        with self.lock:
            self.asked.append(asked)
            if kind == "agent" and self.turns:
                return asked, self.turns.pop(0)
        # Each client takes its own kind of summary.
        whole = f"<summary><state_snapshot>{SUMMARY}</state_snapshot></summary>" if "contents" in body else None
        return asked, Turn(whole or f"<summary>{SUMMARY}</summary>" if kind == "summary" else "ok")


def _content(message: dict[str, Any]) -> Any:
    return message.get("content") or message.get("output") or message.get("parts")


def _tools(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Gemini's stand in groups."""
    found = body.get("tools") or []
    return [one for group in found for one in group.get("functionDeclarations", [group])]


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    found = body.get("messages") or body.get("input") or body.get("contents") or []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else [{"content": found}]


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict):
            yield from _texts(block.get("text") or block.get("content") or _given(block))


def _given(block: dict[str, Any]) -> Any:
    """What a tool gave to Gemini."""
    response = (block.get("functionResponse") or {}).get("response")
    return json.dumps(response, ensure_ascii=False) if response else None


@contextmanager
def model(*turns: Turn) -> Iterator[tuple[Model, str]]:
    """The model, and the address that it answers at."""
    script = Model(*turns)
    handler = type("Handler", (_Handler,), {"script": script})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield script, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Model

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._json({})

    def do_GET(self) -> None:
        self._json({"object": "list", "data": [{"id": "standin", "object": "model"}], "models": []})

    def do_POST(self) -> None:
        try:
            body = json.loads(self._read() or b"{}")
        except ValueError:
            body = {}
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 1000})
        elif path.endswith("/messages"):
            self._messages(body)
        elif path.endswith("/chat/completions"):
            self._chat(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith(":countTokens"):
            self._json({"totalTokens": 1000})
        elif path.endswith(("enerateContent",)):
            self._gemini(body, path.endswith(":streamGenerateContent"))
        else:
            self._json({})

    def _read(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _json(self, told: Any) -> None:
        body = json.dumps(told).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _stream(self, *events: tuple[str | None, Any]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for name, told in events:
            head = f"event: {name}\n" if name else ""
            self.wfile.write(f"{head}data: {told if isinstance(told, str) else json.dumps(told)}\n\n".encode())

    def _said(self, body: dict[str, Any]) -> tuple[Turn, str]:
        asked, turn = self.script.take(body)
        return turn, turn.say(asked.text) if callable(turn.say) else turn.say

    def _messages(self, body: dict[str, Any]) -> None:
        turn, text = self._said(body)
        usage = {"input_tokens": turn.tokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
                 "output_tokens": 12}  # fmt: skip
        if turn.tool:
            block: dict[str, Any] = {"type": "tool_use", "id": _new("toolu"), "name": turn.tool, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(turn.arguments)}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": text}
        stop = "tool_use" if turn.tool else "end_turn"
        whole = {"id": _new("msg"), "type": "message", "role": "assistant", "model": body.get("model"), "content": [],
                 "stop_reason": None, "stop_sequence": None, "usage": usage}  # fmt: skip
        if not body.get("stream"):
            full = {**block, "input": turn.arguments} if turn.tool else {"type": "text", "text": text}
            self._json({**whole, "content": [full], "stop_reason": stop})
            return
        ended = {"delta": {"stop_reason": stop, "stop_sequence": None}, "usage": {"output_tokens": 12}}
        events = [
            {"type": "message_start", "message": whole},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", **ended},
            {"type": "message_stop"},
        ]
        self._stream(*((str(one["type"]), one) for one in events))

    def _chat(self, body: dict[str, Any]) -> None:
        turn, text = self._said(body)
        usage = {"prompt_tokens": turn.tokens, "completion_tokens": 12, "total_tokens": turn.tokens + 12}
        base = {"id": _new("chatcmpl"), "object": "chat.completion.chunk", "created": 1, "model": body.get("model")}
        function = {"name": turn.tool, "arguments": json.dumps(turn.arguments)}
        call = [{"index": 0, "id": _new("call"), "type": "function", "function": function}]
        delta = {"role": "assistant", **({"tool_calls": call} if turn.tool else {"content": text})}
        ended = {"index": 0, "delta": {}, "finish_reason": "tool_calls" if turn.tool else "stop"}
        self._stream(
            (None, {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}),
            (None, {**base, "choices": [ended]}),
            (None, {**base, "choices": [], "usage": usage}),
            (None, "[DONE]"),
        )

    def _responses(self, body: dict[str, Any]) -> None:
        turn, text = self._said(body)
        if turn.tool:
            item: dict[str, Any] = {"type": "function_call", "id": _new("fc"), "call_id": _new("call"),
                                    "status": "completed", **_named(turn.tool, body),
                                    "arguments": json.dumps(turn.arguments)}  # fmt: skip
        else:
            content = [{"type": "output_text", "text": text, "annotations": []}]
            item = {
                "type": "message",
                "id": _new("msg"),
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        usage = {"input_tokens": turn.tokens, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": 12,
                 "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": turn.tokens + 12}  # fmt: skip
        whole = {"id": _new("resp"), "object": "response", "created_at": 1, "status": "completed",
                 "model": body.get("model"), "output": [item], "usage": usage}  # fmt: skip
        events = [
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": [], "usage": None}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        ]
        self._stream(*((str(one["type"]), {**one, "sequence_number": n}) for n, one in enumerate(events)))

    def _gemini(self, body: dict[str, Any], stream: bool) -> None:
        turn, text = self._said(body)
        part = {"functionCall": {"name": turn.tool, "args": turn.arguments}} if turn.tool else {"text": text}
        if (body.get("generationConfig") or {}).get("responseMimeType") == "application/json":
            part = {"text": json.dumps({"reasoning": "none", "next_speaker": "user", "model_choice": "flash"})}
        usage = {"promptTokenCount": turn.tokens, "candidatesTokenCount": 12, "totalTokenCount": turn.tokens + 12}
        candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
        told = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "standin"}
        if stream:
            self._stream((None, told))
        else:
            self._json(told)


def _named(tool: str, body: dict[str, Any]) -> dict[str, str]:
    """Codex calls the tools of a server by its name and theirs, apart."""
    spaces = [str(one.get("name")) for one in body.get("tools") or () if one.get("type") == "namespace"]
    space = next((one for one in spaces if tool.startswith(one)), None)
    return {"name": tool} if space is None else {"namespace": space, "name": tool.removeprefix(space).lstrip("_")}


def _new(kind: str) -> str:
    return f"{kind}_{uuid.uuid4().hex[:20]}"
