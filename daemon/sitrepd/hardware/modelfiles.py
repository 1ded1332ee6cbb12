"""Where the files of models lie on this machine: the folders that launches named, and the cache of downloads."""

from __future__ import annotations

import os
from pathlib import Path

from sqlmodel import Session, col, select

from sitrepd.launches.models import Launch

_LATEST = 200
_MOST = 12


def model_paths(db: Session, host_id: int) -> list[str]:
    """Folders of the latest launches' models and drafts that are there, newest first."""
    query = (
        select(Launch.model, Launch.draft_model, Launch.cwd)
        .where(Launch.host_id == host_id)
        .order_by(col(Launch.id).desc())
        .limit(_LATEST)
    )
    told = [(path, cwd) for *paths, cwd in db.exec(query).all() for path in paths if path]
    found = dict.fromkeys(path for name, cwd in told if (path := _folder(name, cwd)))
    cached = _downloads()
    return [*list(found)[:_MOST], *([cached] if cached else [])]


def _folder(name: str, cwd: str | None) -> str | None:
    """A model may be a folder, or a name that a hub knows; a folder is told from its launch's own."""
    path = Path(cwd or "/", name) if name.startswith(("/", "./", "../")) else None
    try:
        return os.path.normpath(path) if path and path.exists() else None
    except OSError:
        return None


def _downloads() -> str | None:
    """As huggingface_hub finds its cache."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    cached = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    return cached if os.path.isdir(cached) else None
