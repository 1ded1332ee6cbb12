"""The replay's HTTP side: what SGLang's endpoints answer while warming up and when ready."""

from __future__ import annotations

import http.client
import json
import time
import uuid
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sitrepd.demo._args import ReplayArgs
from sitrepd.demo._start import CONTEXT_LENGTH, KV_GB, KV_TOKENS, WEIGHT_GB, Start
from sitrepd.demo._tape import Tape

TEXT = "This is a replay: no model is loaded."
_TOKENS = 10


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1 alone; `state` is starting, ready or stopping, as /server_info says it."""

    daemon_threads = True

    def __init__(self, tape: Tape, args: ReplayArgs, start: Start) -> None:
        super().__init__(("127.0.0.1", args.port), _Handler)
        self.tape = tape
        self.args = args
        self.start = start
        self.state = "starting"
        self.created = int(time.time())
        self.generated = 0

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is not worth a traceback in the log."""

    def warm_up(self, until: float) -> None:
        """The engine's own first requests, through its own port."""
        port = self.server_address[1]
        _request(port, "GET", "/model_info")
        self.tape.until(until)
        _request(port, "POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]})
        self.generated = 0
        if self.args.modern:
            _request(port, "POST", "/freeze_gc")
        self.state = "ready"


def _request(port: int, method: str, path: str, body: object = None) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, None if body is None else json.dumps(body))
    connection.getresponse().read()
    connection.close()


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "uvicorn"
    sys_version = ""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/") or "/"
        server = self.server
        if path in {"/health", "/health_generate"}:
            self._health()
        elif path == "/ready" and server.args.modern:
            self._send(200 if server.state == "ready" else 503, b"")
        elif path == "/metrics":
            self._send(200, metrics(server).encode(), "text/plain; version=0.0.4; charset=utf-8")
        elif path in _ANSWERS:
            self._json(_ANSWERS[path](server))
        else:
            self._json({"detail": "Not Found"}, 404)

    def do_POST(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        body = self._body()
        if path == "/freeze_gc":
            self._send(200, b"Garbage collection frozen.\n", "text/plain; charset=utf-8")
        elif path not in {"/generate", "/v1/chat/completions", "/v1/completions"}:
            self._json({"detail": "Not Found"}, 404)
        elif body is None:
            self._json({"error": {"message": "The body is not a JSON object."}}, 400)
        else:
            self._generate(path, body)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Uvicorn's access line inside SGLang's brackets."""
        client = f"{self.client_address[0]}:{self.client_address[1]}"
        status = HTTPStatus(int(code))
        self.server.tape.record(f'INFO:     {client} - "{self.requestline}" {int(status)} {status.phrase}')

    def log_message(self, format: str, *args: object) -> None:
        """Nothing beside the access line."""

    def _health(self) -> None:
        """A ready engine generates a token for it, which takes over a second in the recordings."""
        server = self.server
        if server.state == "ready":
            time.sleep(min(1.0, server.tape.duration_s / 90))
            self._prefill_line(1)
        self._send(200 if server.state == "ready" else 503, b"")

    def _prefill_line(self, tokens: int) -> None:
        server = self.server
        server.tape.record(
            f"Prefill batch, #new-seq: 1, #new-token: {tokens}, #cached-token: 0, token usage: 0.00, #running-req: 0, "
            "#queue-req: 0, #pending-token: 0, cuda graph: True, input throughput (token/s): 3.87",
            0 if len(server.args.ranks) > 1 else None,
        )

    def _body(self) -> dict[str, Any] | None:
        """The JSON object that was sent; None where it is something else."""
        try:
            value = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        except ValueError:
            return None
        return value if isinstance(value, dict) else None

    def _generate(self, path: str, body: dict[str, Any]) -> None:
        self._prefill_line(6)
        self.server.generated += _TOKENS
        answer = _generated() if path == "/generate" else _completion(path, self.server)
        if not body.get("stream"):
            self._json(answer)
            return
        events = f"data: {json.dumps(_streamed(path, answer))}\n\ndata: [DONE]\n\n"
        self._send(200, events.encode(), "text/event-stream; charset=utf-8")

    def _json(self, value: object, status: int = 200) -> None:
        self._send(status, json.dumps(value, separators=(",", ":")).encode(), "application/json")

    def _send(self, status: int, body: bytes, kind: str | None = None) -> None:
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _generated() -> dict[str, Any]:
    meta = {
        "id": uuid.uuid4().hex,
        "finish_reason": {"type": "stop", "matched": None},
        "prompt_tokens": 6,
        "completion_tokens": _TOKENS,
        "cached_tokens": 0,
        "weight_version": "default",
    }
    return {"text": TEXT, "output_ids": list(range(_TOKENS)), "meta_info": meta}


def _completion(path: str, server: Server) -> dict[str, Any]:
    chat = path == "/v1/chat/completions"
    said = {"message": {"role": "assistant", "content": TEXT}} if chat else {"text": TEXT}
    return {
        "id": uuid.uuid4().hex,
        "object": "chat.completion" if chat else "text_completion",
        "created": int(time.time()),
        "model": server.args.resolved["served_model_name"],
        "choices": [{"index": 0, **said, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 6, "completion_tokens": _TOKENS, "total_tokens": 6 + _TOKENS},
    }


def _streamed(path: str, answer: dict[str, Any]) -> dict[str, Any]:
    """The whole answer as one event; a chat chunk says delta where the whole says message."""
    if path != "/v1/chat/completions":
        return answer
    choice = dict(answer["choices"][0])
    choice["delta"] = choice.pop("message")
    return {**answer, "object": "chat.completion.chunk", "choices": [choice]}


def _models(server: Server) -> dict[str, Any]:
    resolved = server.args.resolved
    model = {
        "id": resolved["served_model_name"],
        "object": "model",
        "created": server.created,
        "owned_by": "sglang",
        "root": resolved["model_path"],
        "parent": None,
        "max_model_len": CONTEXT_LENGTH,
    }
    return {"object": "list", "data": [model]}


def _model_info(server: Server) -> dict[str, Any]:
    resolved = server.args.resolved
    return {
        "model_path": resolved["model_path"],
        "tokenizer_path": resolved["tokenizer_path"],
        "is_generation": True,
        "preferred_sampling_params": None,
        "weight_version": "default",
        "has_image_understanding": True,
        "has_audio_understanding": False,
        "model_type": "kimi_k25",
        "architectures": ["KimiK25ForConditionalGeneration"],
    }


def _server_info(server: Server) -> dict[str, Any]:
    start = server.start
    memory = {
        "weight": WEIGHT_GB,
        "kvcache": KV_GB,
        "startup_available": round(start.available_gb(), 2),
        "token_capacity": KV_TOKENS,
    }
    internal: dict[str, Any] = {
        **server.args.resolved,
        "last_gen_throughput": 0.0,
        "memory_usage": memory,
        "effective_max_running_requests_per_dp": server.args.resolved["max_running_requests"],
    }
    if server.generated and server.args.steps:
        internal["avg_spec_accept_length"] = 1.0  # a replay accepts no draft token: only the bonus token counts
    return {
        **server.args.resolved,
        "status": server.state,
        "max_total_num_tokens": KV_TOKENS,
        "max_req_input_len": CONTEXT_LENGTH - 6,
        "startup_time": {**start.timings, "cuda_graph": start.graph_timings},
        "internal_states": [internal],
        "version": server.args.version,
        "kv_events": None,
        "replay": TEXT,
    }


_ANSWERS = {
    "/v1/models": _models,
    "/model_info": _model_info,
    "/get_model_info": _model_info,
    "/server_info": _server_info,
    "/get_server_info": _server_info,
}


def metrics(server: Server) -> str:
    """A part of SGLang's Prometheus text, answered whether or not --enable-metrics was given."""
    model = server.args.resolved["served_model_name"]
    whole = f'engine_type="unified",model_name="{model}"'
    rank = f'{whole},moe_ep_rank="0",pp_rank="0",tp_rank="0"'
    lines = []
    for name, text, labels, value in [
        ("max_total_num_tokens", "Maximum total number of tokens in the KV cache pool.", rank, KV_TOKENS),
        ("weight_memory_usage_gb", "Memory used by model weights in GB.", rank, WEIGHT_GB),
        ("kv_cache_memory_usage_gb", "Memory used by the KV cache pools in GB.", rank, KV_GB),
        ("num_running_reqs", "The number of running requests.", rank, 0),
        ("num_queue_reqs", "The number of requests in the waiting queue.", rank, 0),
        ("token_usage", "The token usage.", rank, 0),
        ("gen_throughput", "The generation throughput (token/s).", rank, 0),
        ("spec_num_steps", "Currently active speculative_num_steps.", rank, server.args.steps),
        ("spec_accept_length", "Mean acceptance length of speculative decoding.", rank, 0),
    ]:
        lines += [f"# HELP sglang:{name} {text}", f"# TYPE sglang:{name} gauge"]
        lines.append(f"sglang:{name}{{{labels}}} {float(value)}")
    name = "sglang:generation_tokens_total"
    lines += [f"# HELP {name} Number of generation tokens processed.", f"# TYPE {name} counter"]
    lines.append(f"{name}{{{whole}}} {float(server.generated)}")
    return "\n".join(lines) + "\n"
