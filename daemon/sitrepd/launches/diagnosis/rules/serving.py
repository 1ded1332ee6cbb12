"""Trouble of a server that listens: warm-up, watchdog, health, requests."""

from __future__ import annotations

import re

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule


def _warmup_fix(case: Case) -> str:
    text = case.text + case.frames
    if "502" in text or "503" in text or "proxy" in text.lower() or "403" in text:
        return (
            "unset http_proxy https_proxy all_proxy, or export no_proxy=localhost,127.0.0.1,0.0.0.0 before the start."
        )
    if "timed out" in text.lower() or "Timeout" in text:
        return (
            "export SGLANG_WARMUP_TIMEOUT=1800; or --skip-server-warmup, and look at the first request's kernels "
            "(JIT) in the log."
        )
    return (
        "Read the exception below the line; --skip-server-warmup starts without that request; proxies: export "
        "no_proxy=127.0.0.1,0.0.0.0."
    )


_OF_REQUESTS = (
    r"(?:entrypoints/openai/(?:\w+/)*serving\w*|entrypoints/chat_utils|openai_api/adapter|entrypoints/renderer\w*)\.py\""
    r", line \d+, in (?!__init__|<module>|load_|validate_chat_template)\w+"
)
_AT_START = re.compile(
    r"\bin (?:warmup|init_app_state|run_server\w*|build_app|launch_server|_wait_and_warmup)\b|create_engine_config"
)
_REFUSES = re.compile(
    r"(?:[\w.]+\.)?(?:ValueError|ValidationError|TemplateError|BadRequestError|RequestValidationError|HTTPException)\b"
)
_OFFLINE = re.compile(r"entrypoints/(?:engine|llm)\.py\", line \d+, in (?:generate|encode|chat|embed)\b")


def _refused(case: Case) -> str:
    """A script that holds the engine itself has no server."""
    return "A request was refused" + ("" if _OFFLINE.search(case.frames) else "; the server itself is fine")


RULES: tuple[Rule, ...] = (
    rule(
        "watchdog_timeout",
        r"[Ww]atchdog timeout \((?:self\.)?watchdog_timeout=(?P<limit>[\d.]+)(?!.*soft=True)"
        r"|[Ww]atchdog timeout(?!.*soft=True)",
        "The watchdog ended the server: one forward pass took longer than its limit",
        "A scheduler made no progress for {limit} s: a hang, or a compilation inside the first batch.",
        "--watchdog-timeout 1800 if something compiles (--enable-torch-compile, JIT); else py-spy dump --pid PID of "
        "each rank while it hangs.",
        weight="fatal",
        standing="follows",
    ),
    rule(
        "warmup_failed",
        r".",
        "The server listened, and its warm-up request failed",
        lambda case: f"The request that the server sends to itself failed: {case.incident.cause[1][:200]}",
        _warmup_fix,
        needs=lambda case: case.incident.who == "warmup",
    ),
    rule(
        "warmup_failed",
        r"Server warmup failed|HTTP server did not become ready"
        r"|Initialization failed\. warmup error|warmup error:|res(?:=|: )<Response \[[45]\d\d\]>",
        "The server listened, and its warm-up request failed",
        "The request that the server sends to itself was refused, timed out, or broke the engine.",
        _warmup_fix,
        weight="fatal",
    ),
    rule(
        "health_check_failed",
        r"Health check failed\.|couldn't get a response from detokenizer for last (?P<limit>\d+) seconds",
        "The running server stopped answering its own health check",
        "No token came back from the scheduler within the limit: it is stuck, or very long prompts keep it busy.",
        "py-spy dump --pid of the scheduler; SGLANG_HEALTH_CHECK_TIMEOUT=60 and --chunked-prefill-size 2048 if it is "
        "only busy.",
        on="line",
        standing="follows",
    ),
    rule(
        "health_check_failed",
        r"TimeoutError|Abort request",
        "The running server did not answer its own health check in time",
        "The request that checks its health waited in vain for a token: the scheduler is stuck or very busy.",
        "py-spy dump --pid of the scheduler; SGLANG_HEALTH_CHECK_TIMEOUT=60 and --chunked-prefill-size 2048 if it is "
        "only busy.",
        frames=r"in health_generate",
        on="block",
        standing="follows",
    ),
    rule(
        "request_rejected",
        r"(?:[Ii]nput|[Pp]rompt|request).{0,80}(?:is longer than|exceeds?|longer than|too long).{0,80}(?:context|max"
        r"|allowed|limit)|maximum context length is (?P<most>\d+)"
        r"|Requested token count exceeds|max_(?:completion_)?tokens.{0,40}(?:too large|exceeds|must be)"
        r"|[Ii]nput length .{0,40}exceeds",
        _refused,
        "The request asked for more tokens than the context allows.",
        "Shorten the prompt or max_tokens; a longer {flag_context} if the model allows it.",
        weight="mild",
        alive=True,
    ),
    rule(
        "request_rejected",
        r"\S",
        lambda case: f"{_refused(case)}: {case.incident.cause[1][:160]}",
        lambda case: f"The server could not make a prompt of the request: {case.incident.cause[1][:200]}",
        "Change the request as the message says (roles, content, tools, images where the model takes them); a chat "
        "template is given with --chat-template.",
        frames=_OF_REQUESTS,
        on="block",
        weight="mild",
        alive=True,
        needs=lambda case: not _AT_START.search(case.frames) and _REFUSES.match(case.incident.cause[1]) is not None,
    ),
    rule(
        "request_rejected",
        r'"POST /\S+ HTTP/[\d.]+"? (?P<status>400|413|422)\b',
        "Requests were refused with HTTP {status}; the server itself is fine",
        "The server answered that the request was not valid.",
        "Look at the body of the answer, which says what is wrong with the request (length, parameters, model name).",
        on="line",
        weight="mild",
        alive=True,
    ),
    rule(
        "request_rejected",
        r"(?:Prefill|Decode) (?:transfer|bootstrap|handshake) failed for request|KVTransferError"
        r"|Losing connection with (?:prefill|decode) instance",
        "Requests failed: their KV cache did not come from the prefill server to the decode server",
        "The transfer between the two servers failed, so requests in flight were given up; this server lives on.",
        "Look at the log of the other server of the pair for the same second; memory that is not registered, or a "
        "device that is down: ibv_devinfo, --disaggregation-ib-device; without RDMA: MC_FORCE_TCP=1.",
        weight="mild",
        alive=True,
    ),
    rule(
        "request_rejected",
        r'"?POST /\S+ HTTP/[\d.]+"? (?P<status>50[0-24])\b',
        "Requests failed with HTTP {status}; the server itself lives on",
        "The server could not finish a request that it had taken on; the log does not name the exception.",
        "The body of the answer may say why; an exception of the same second stands above the line where the engine "
        "logs it (--log-requests tells what was asked).",
        on="line",
        weight="mild",
        alive=True,
        standing="secondary",
    ),
)
