"""What this machine consists of, in the store: a snapshot and an event when that has changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from sqlmodel import Session, col, select

from sitrepd import redact
from sitrepd.clock import utc_now
from sitrepd.hardware.changes import changes, sentence
from sitrepd.hardware.models import Host
from sitrepd.hardware.models import HostSnapshot as SnapshotRow
from sitrepd.hardware.snapshot import HostSnapshot
from sitrepd.storage import events, ids

_MOST_CHANGES = 100
_MOST_SAID = 8
# Free space passes unnoticed by the event log, and is kept up to date all the same.
_ALWAYS = ("disks",)


def last(db: Session, host_id: int) -> HostSnapshot | None:
    """What was stored last; None also where an older version stored something that is no longer understood."""
    newest = select(SnapshotRow).where(SnapshotRow.host_id == host_id).order_by(col(SnapshotRow.id).desc()).limit(1)
    row = db.exec(newest).first()
    try:
        return HostSnapshot.model_validate(row.data) if row else None
    except ValidationError:
        return None


def storable(snapshot: HostSnapshot) -> HostSnapshot:
    """Without secrets (a mount can carry a login) and without the machine's id."""
    return HostSnapshot.model_validate(redact.redact_json(snapshot.model_dump(mode="json", exclude={"machine_id"})))


def fill(db: Session, host_id: int, snapshot: HostSnapshot) -> None:
    """The columns alone, at the very first look, while the driver is still being asked."""
    row = db.get(Host, host_id)
    if row is not None and last(db, host_id) is None:
        _assign(row, columns(snapshot))
        db.add(row)


def store(db: Session, host_id: int, snapshot: HostSnapshot) -> bool:
    """Whether the machine has changed since the last look; what changed is an event, save at the first look."""
    row = db.get(Host, host_id)
    if row is None:
        return False
    before, now = last(db, host_id), columns(snapshot)
    if before is not None and before.static_hash() == snapshot.static_hash():
        _assign(row, {name: now[name] for name in _ALWAYS})
        db.add(row)
        return False
    known: Mapping[str, Any] = columns(before) if before else {}
    # Only what changed: a column that somebody told otherwise stays as told.
    _assign(row, {name: value for name, value in now.items() if name in _ALWAYS or known.get(name, ...) != value})
    row.observed_at = utc_now()
    db.add(row)
    data = snapshot.model_dump(mode="json")
    db.add(SnapshotRow(host_id=host_id, at=row.observed_at, digest=snapshot.static_hash(), data=data))
    found = _differences(before, snapshot) if before else []
    if before and not found:
        return False  # only of what an older version did not look at
    told: dict[str, Any] = {"first": True}
    if before:
        told = {"text": sentence(found[:_MOST_SAID]), "changes": found[:_MOST_CHANGES]}
    fields = sorted({change["field"] for change in found}) if before else sorted(now)
    events.record(db, "host.changed", ids.public_id("H", host_id), row.session_id, fields=fields, **told)
    return True


def _differences(before: HostSnapshot, now: HostSnapshot) -> list[dict[str, Any]]:
    """Of what both know: a snapshot of an older version lacks fields."""
    known = before.model_fields_set
    old, new = ({name: value for name, value in one.static_facts().items() if name in known} for one in (before, now))
    return changes(old, new)


def columns(snapshot: HostSnapshot) -> dict[str, Any]:
    told = snapshot.host_fields()
    told["gpus"] = [{name: value for name, value in gpu.items() if value is not None} for gpu in told["gpus"]]
    return told


def _assign(row: Host, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)
