"""Time as Sitrep keeps it: aware, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_now() -> datetime:
    return datetime.now(UTC)


def iso(moment: datetime, timespec: str | None = None) -> str:
    """ISO 8601 with a Z, to the second where there is no fraction; `timespec` says otherwise."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    told = in_utc.isoformat(timespec=timespec or ("milliseconds" if moment.microsecond else "seconds"))
    return told.replace("+00:00", "Z")
