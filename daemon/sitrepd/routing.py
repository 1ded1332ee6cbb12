"""What routes are made of: dependencies, the session that is meant, and the routes that every noun has."""

import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Generic, TypeVar, get_type_hints

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel
from sqlmodel import Session

from sitrepd import facts
from sitrepd.decimals import unmark
from sitrepd.errors import SitrepError
from sitrepd.facts import Noun, Scope
from sitrepd.runtime import Runtime
from sitrepd.sessions import current

T = TypeVar("T")


class DecimalRequest(Request):
    """Reads the numbers of a JSON body as they were written."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = json.loads(await self.body(), parse_float=Decimal, parse_constant=_no_constant)
        return self._json


def _no_constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is no JSON number; leave the value out or give null", name, 0)


class ApiRoute(APIRoute):
    """A route whose body and answer keep the decimals of their numbers, and whose shapes are complete."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        for shape in (*get_type_hints(endpoint).values(), more.get("response_model")):
            if isinstance(shape, type) and issubclass(shape, BaseModel):
                _complete(shape)
        super().__init__(path, endpoint, **more)

    def get_route_handler(self) -> Callable[[Request], Any]:
        handle = super().get_route_handler()

        async def with_decimals(request: Request) -> Response:
            response: Response = await handle(DecimalRequest(request.scope, request.receive))
            body = getattr(response, "body", None)
            if body and (plain := unmark(bytes(body))) != body:
                response.body = plain
                response.headers["content-length"] = str(len(plain))
            return response

        return with_decimals


def _complete(shape: type[BaseModel]) -> None:
    """Make the validators of a shape now, since FastAPI's own would wait as the shape does."""
    if not shape.__pydantic_complete__:
        shape.model_rebuild()
    shape.model_config["defer_build"] = False


def api_router(tag: str) -> APIRouter:
    tags: list[str | Enum] = [tag]
    return APIRouter(route_class=ApiRoute, tags=tags)


def get_runtime(request: Request) -> Runtime:
    runtime: Runtime = request.app.state.runtime
    return runtime


RuntimeDep = Annotated[Runtime, Depends(get_runtime)]


def _read(runtime: RuntimeDep) -> Iterator[Session]:
    with runtime.store.read() as db:
        yield db


ReadDep = Annotated[Session, Depends(_read)]


def get_hint(request: Request) -> current.Hint:
    """Read from the request itself: as declared parameters they would double the time in which routes are made."""
    asked, headers = request.query_params.get("session"), request.headers
    told = asked if asked not in (None, "current") else utf8(headers.get("x-sitrep-session"))
    conversation, cwd = utf8(headers.get("x-sitrep-conversation")), utf8(headers.get("x-sitrep-cwd"))
    return current.Hint(told, conversation, cwd, current.elsewhere(headers.get("x-sitrep-host")))


def utf8(header: str | None) -> str | None:
    """A header's bytes are read as Latin-1, but names and folders are sent in UTF-8."""
    try:
        return header.encode("latin-1").decode() if header else header
    except UnicodeError:
        return header


HintDep = Annotated[current.Hint, Depends(get_hint)]


def get_teller(request: Request) -> str:
    """Who speaks, as the provenance of what is told."""
    return f"told:{request.headers.get('x-sitrep-client', 'rest')[:80]}"


TellerDep = Annotated[str, Depends(get_teller)]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at the most.")]
Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before.")]
FactId = Annotated[str, Path(description="Public id.", examples=["L14"])]
SessionId = Annotated[str, Path(description="A session's id, or `current`.", examples=["current"])]


class Listed(BaseModel, Generic[T]):
    """One page, newest first; `count` is the number of all."""

    data: list[T]
    count: int
    next_cursor: str | None = None


def session_id(db: Session, told: str, hint: current.Hint) -> int:
    """The session of a path: its id, or `current` for the one that the request's headers mean."""
    return current.resolve(db, hint if told == "current" else current.Hint(told))


def fact_routes(
    noun: Noun, *, create: bool = True, update: bool = True, nested: bool = True, listing: bool = True
) -> APIRouter:
    """Create, read, list and change facts of one kind, also below /sessions/{session_id}."""
    router = api_router(noun.plural)
    name = noun.word
    if create and noun.writable:
        _add_create(router, noun)
    if listing:
        _add_list(router, noun, nested and noun.in_session)

    def read(fact_id: FactId, db: ReadDep, runtime: RuntimeDep) -> Any:
        return facts.publish_one(db, runtime.registry, noun, facts.get(db, noun, fact_id))

    router.add_api_route(
        f"/{noun.plural}/{{fact_id}}", read, response_model=noun.public, name=f"get_{name}",
        summary=f"Read one: {noun.summary}", response_model_exclude_none=True,
    )  # fmt: skip
    if update and noun.writable:
        _add_update(router, noun)
    return router


def _add_create(router: APIRouter, noun: Noun) -> None:
    async def create(body: Any, runtime: RuntimeDep, hint: HintDep, teller: TellerDep, response: Response) -> Any:
        told = await tell(runtime, noun, body, hint, teller)
        response.headers["Location"] = f"/api/v1/{noun.plural}/{told.id}"
        return told

    async def create_in(
        fact_session: SessionId, body: Any, runtime: RuntimeDep, hint: HintDep, teller: TellerDep
    ) -> Any:
        return await tell(
            runtime,
            noun,
            body,
            hint if fact_session == "current" else current.Hint(fact_session, host=hint.host),
            teller,
        )

    _typed(create, noun.create)
    _typed(create_in, noun.create)
    shared: dict[str, Any] = {
        "methods": ["POST"], "status_code": 201, "response_model": noun.public, "response_model_exclude_none": True,
        "summary": f"Tell one: {noun.summary}",
    }  # fmt: skip
    router.add_api_route(f"/{noun.plural}", create, name=f"create_{noun.word}", **shared)
    if noun.in_session:
        path = f"/sessions/{{fact_session}}/{noun.plural}"
        router.add_api_route(path, create_in, name=f"create_session_{noun.word}", **shared)


def _add_list(router: APIRouter, noun: Noun, nested: bool) -> None:
    def list_all(
        db: ReadDep, runtime: RuntimeDep, hint: HintDep, request: Request, limit: Limit = 100, cursor: Cursor = None
    ) -> Any:
        asked = "session" in request.query_params or "x-sitrep-session" in request.headers
        number = current.resolve(db, hint) if asked and noun.in_session else None
        return listed(db, runtime, noun, facts.page(db, noun, number, limit, cursor))

    def list_in(
        fact_session: SessionId,
        db: ReadDep,
        runtime: RuntimeDep,
        hint: HintDep,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Any:
        return listed(db, runtime, noun, facts.page(db, noun, session_id(db, fact_session, hint), limit, cursor))

    model = Listed[noun.public]  # type: ignore[name-defined]
    shared: dict[str, Any] = {
        "response_model": model, "response_model_exclude_none": True, "summary": f"List, newest first: {noun.summary}"
    }  # fmt: skip
    plural = noun.plural.replace("-", "_")
    router.add_api_route(f"/{noun.plural}", list_all, name=f"list_{plural}", **shared)
    if nested:
        path = f"/sessions/{{fact_session}}/{noun.plural}"
        router.add_api_route(path, list_in, name=f"list_session_{plural}", **shared)


def _add_update(router: APIRouter, noun: Noun) -> None:
    async def change(fact_id: FactId, body: Any, runtime: RuntimeDep, teller: TellerDep) -> Any:
        def job(db: Session) -> Any:
            row = facts.get(db, noun, fact_id)
            facts.update(db, noun, row, body, Scope(runtime.registry, teller))
            db.flush()
            return row.session_id, facts.publish_one(db, runtime.registry, noun, row)

        number, told = await runtime.store.write_async(job)
        runtime.activity.touch(number)
        return told

    _typed(change, noun.update)
    router.add_api_route(
        f"/{noun.plural}/{{fact_id}}", change, methods=["PATCH"], response_model=noun.public,
        name=f"update_{noun.word}", response_model_exclude_none=True,
        summary=f"Change the fields that are given: {noun.summary}",
    )  # fmt: skip


# What is a file or process of the caller's machine, unless another is named.
_OF_CALLER = ("artifact", "command")


async def tell(runtime: Runtime, noun: Noun, body: Any, hint: current.Hint, teller: str) -> Any:
    """Store a told fact in the session that is meant, and answer with it once it is durable."""
    from sitrepd.hardware.hosts import named_host

    def job(db: Session) -> Any:
        number = current.resolve(db, hint) if noun.in_session else None
        row = facts.tell(db, noun, body, Scope(runtime.registry, teller, number))
        if hint.host is not None and noun.word in _OF_CALLER and row.host_id is None:
            row.host_id = named_host(db, runtime.registry, hint.host)
        db.flush()
        return row.session_id, facts.publish_one(db, runtime.registry, noun, row)

    number, told = await runtime.store.write_async(job)
    runtime.activity.touch(number)
    return told


def listed(db: Session, runtime: Runtime, noun: Noun, page: facts.Page) -> Any:
    return {
        "data": facts.publish(db, runtime.registry, noun, page.rows),
        "count": page.count,
        "next_cursor": page.cursor,
    }


def _typed(endpoint: Callable[..., Any], body: type[BaseModel]) -> None:
    """FastAPI reads the body's shape from the annotation, which differs by noun."""
    endpoint.__annotations__["body"] = body


def problems(*errors: type[SitrepError]) -> dict[int | str, dict[str, Any]]:
    """Documentation of the errors that a route can give."""
    return {error.status: {"description": error.title, "content": {"application/problem+json": {}}} for error in errors}


__all__: Sequence[str] = (
    "Cursor", "FactId", "HintDep", "Limit", "Listed", "ReadDep", "RuntimeDep", "SessionId", "TellerDep", "api_router",
    "fact_routes", "listed", "problems", "session_id", "tell", "utf8",
)  # fmt: skip
