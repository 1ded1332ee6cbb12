"""Errors that say what is wrong and what would be right; HTTP shows them as RFC 9457 problem details."""

from __future__ import annotations

from typing import Any


class SitrepError(Exception):
    """Base of all errors meant for a reader; `status` is the HTTP status that goes with it."""

    status = 400
    title = "Bad request"

    def __init__(self, detail: str, **extra: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.extra = extra


class InvalidFact(SitrepError):
    """A told fact that cannot be stored as it is; `errors` names each field."""

    status = 422
    title = "Invalid input"


class UnknownId(SitrepError):
    status = 404
    title = "Unknown id"


class Conflict(SitrepError):
    status = 409
    title = "Conflict"


class NoSession(Conflict):
    """It is not clear which session is meant; `sessions` lists the open ones."""

    title = "Which session?"


class Forbidden(SitrepError):
    status = 403
    title = "Forbidden"


class StoreUnusable(SitrepError):
    """The store cannot be opened or written; nothing in it was changed."""

    status = 507
    title = "The store cannot be used"
