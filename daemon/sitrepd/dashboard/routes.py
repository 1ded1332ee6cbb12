"""Pages of the dashboard."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from sitrepd.links import COOKIE, Links

router = APIRouter(include_in_schema=False)


@router.get("/open/{code}")
def open_link(code: str, request: Request) -> Response:
    """Exchange a one-time code for the cookie that keeps this browser in."""
    links: Links = request.app.state.links
    cookie = links.redeem(code)
    if cookie is None:
        return HTMLResponse(
            "<!doctype html><title>Sitrep</title><p>This link was used or is too old. Run <code>sitrep open</code> again.",
            410,
        )
    response = RedirectResponse("/", 303)
    response.set_cookie(
        COOKIE, cookie, max_age=180 * 86400, httponly=True, samesite="lax", secure=request.url.scheme == "https"
    )
    return response
