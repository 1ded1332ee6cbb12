"""The description of the API, with the headers that many routes read from the request itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from sitrepd.late import PREFIX, make_all
from sitrepd.routing import get_hint, get_teller


def _parameter(name: str, place: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": place, "required": False, "description": description, "schema": {"type": "string"}}


PARAMETERS: dict[str, dict[str, Any]] = {
    "session": _parameter("session", "query", "A session's id, or `current`."),
    "x-sitrep-session": _parameter("X-Sitrep-Session", "header", "A session's id."),
    "x-sitrep-conversation": _parameter("X-Sitrep-Conversation", "header", "The client's own conversation id."),
    "x-sitrep-cwd": _parameter("X-Sitrep-Cwd", "header", "The caller's working directory."),
    "x-sitrep-client": _parameter("X-Sitrep-Client", "header", "Who speaks: cli, mcp, a client's name."),
}
_READ: dict[Callable[..., Any], tuple[str, ...]] = {
    get_hint: ("session", "x-sitrep-session", "x-sitrep-conversation", "x-sitrep-cwd"),
    get_teller: ("x-sitrep-client",),
}


def described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document; made once."""
    if app.openapi_schema:
        return app.openapi_schema
    make_all(app, PREFIX)
    schema = FastAPI.openapi(app)
    schema["components"]["parameters"] = PARAMETERS
    for route in app.routes:
        if isinstance(route, APIRoute) and route.include_in_schema:
            names = [name for call in _calls(route.dependant) for name in _READ.get(call, ())]
            for method in route.methods or ():
                operation = schema["paths"][route.path_format][method.lower()]
                known = operation.setdefault("parameters", [])
                known += [{"$ref": f"#/components/parameters/{name}"} for name in dict.fromkeys(names)]
                if not known:
                    del operation["parameters"]
    return schema


def _calls(dependant: Dependant) -> list[Any]:
    return [dependant.call, *(call for one in dependant.dependencies for call in _calls(one))]
