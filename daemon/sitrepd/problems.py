"""Every error as an RFC 9457 problem detail."""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match

from sitrepd.errors import SitrepError
from sitrepd.redact import redact_json, redact_text
from sitrepd.storage.writer import explain

log = logging.getLogger(__name__)
MEDIA_TYPE = "application/problem+json"


def problem(status: int, title: str, detail: str, headers: dict[str, str] | None = None, **extra: Any) -> JSONResponse:
    """What the caller sent may hold a secret, and errors quote it."""
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, **extra}
    return JSONResponse(redact_json(body), status, headers, media_type=MEDIA_TYPE)


def _path(request: Request) -> str:
    """As it was asked for; a secret in it is looked for in the decoded path, where no escape hides it."""
    decoded = request.scope["path"]
    return request.url.path if redact_text(decoded) == decoded else redact_text(decoded)


def install(app: FastAPI) -> None:
    app.add_exception_handler(SitrepError, _told)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


async def _told(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SitrepError)
    return problem(error.status, error.title, error.detail, instance=_path(request), **error.extra)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    if _is_no_json(request, error):
        came = request.headers.get("content-type", "").partition(";")[0] or "no type"
        detail = f"The body came as {came}, and JSON is wanted: send it with the header Content-Type: application/json."
        return problem(415, "Unsupported media type", detail, instance=_path(request))
    errors = [{"field": _place(one), "message": message(one)} for one in error.errors()]
    detail = "; ".join(f"{one['field'] or 'body'}: {one['message']}" for one in errors[:5])
    return problem(422, "Invalid input", f"{detail}.", instance=_path(request), errors=errors)


def _is_no_json(request: Request, error: RequestValidationError) -> bool:
    """Whether a body was not even read as JSON, because of what it was called."""
    whole = any(one["loc"] == ("body",) and isinstance(one.get("input"), bytes) for one in error.errors())
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return whole and kind != "application/json" and not kind.endswith("+json")


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    title = HTTPStatus(error.status_code).phrase
    detail = str(error.detail)
    if error.status_code == 404 and detail == title:
        detail = f"There is nothing at {_path(request)}. The API is described at /api/v1/openapi.json."
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if error.status_code == 405:
        allowed = ", ".join(_methods_at(request))
        headers["allow"], detail = (
            allowed,
            f"{request.method} is not possible at {_path(request)}; possible: {allowed}.",
        )
    return problem(error.status_code, title, detail, headers, instance=_path(request))


def _methods_at(request: Request) -> list[str]:
    """Of all routes with this path: each knows its own methods only."""
    found: set[str] = set()
    for route in request.app.router.routes:
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            match, _ = route.matches({**request.scope, "method": method})
            found |= {method} if match is Match.FULL else set()
    return sorted(found)


async def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    told = explain(error)
    if isinstance(told, SitrepError):
        return await _told(request, told)
    log.error("%s %s failed", request.method, _path(request), exc_info=error)
    detail = f"The daemon failed with {type(error).__name__}; its log has the details. Nothing was stored."
    return problem(500, "Internal error", detail, instance=_path(request))


def _place(error: Any) -> str:
    return "" if error["type"] == "json_invalid" else field_name(error["loc"])


def field_name(place: tuple[int | str, ...]) -> str:
    """("body", "metrics", "x", "value") as "metrics.x.value"; ("query", "limit") as "query limit"."""
    parts = [str(part) for part in place]
    if parts and parts[0] == "body":
        return ".".join(parts[1:])
    return f"{parts[0]} {'.'.join(parts[1:])}" if len(parts) > 1 else ".".join(parts)


def message(error: Any) -> str:
    text = str(error["msg"]).removeprefix("Value error, ").replace("a valid dictionary", "an object (names and values)")
    if error["type"] == "extra_forbidden":
        return "unknown field"
    if error["type"] == "json_invalid":
        return f"not valid JSON ({error.get('ctx', {}).get('error', text)} at character {error['loc'][-1]})"
    return text[:1].lower() + text[1:]
