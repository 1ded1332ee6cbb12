"""The row of this machine, which belongs to no session: found or made at the start."""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from sqlmodel import Session, col, select

from sitrepd.facts import Scope, create
from sitrepd.hardware.models import Host, HostCreate

if TYPE_CHECKING:
    from sitrepd.slices import Registry


def machine_key(root: Path = Path("/")) -> str:
    """Names this machine for as long as it is installed; machine-id(5) wants to be hashed before it is told."""
    for path in ("etc/machine-id", "var/lib/dbus/machine-id"):
        try:
            told = (root / path).read_text().strip()
        except OSError:
            continue
        if told and told != "uninitialized":
            return hashlib.blake2s(told.encode(), person=b"sitrep", digest_size=16).hexdigest()
    return f"name:{socket.gethostname()}"


def find_host(db: Session, machine: str) -> int | None:
    return db.exec(select(Host.id).where(Host.machine == machine)).first()


def make_host(db: Session, registry: Registry, machine: str) -> int:
    """The number of this machine's row, which belongs to no session."""
    known = find_host(db, machine)
    if known is not None:
        return known
    told = HostCreate(name=socket.gethostname())
    row: Host = create(db, registry.by_word["host"], told, Scope(registry, "observed"))
    row.machine = machine
    db.add(row)
    return row.id or 0


def named_host(db: Session, registry: Registry, name: str) -> int:
    """The number of another machine's row, by the name that it gives itself."""
    known = db.exec(select(Host.id).where(Host.name == name).order_by(col(Host.id))).first()
    if known is not None:
        return known
    row: Host = create(db, registry.by_word["host"], HostCreate(name=name), Scope(registry, "told"))
    return row.id or 0
