"""Files of the latest checkpoint, for whoever has no other way to read it, also when the daemon is dead."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import get_ident
from typing import Any

from sqlmodel import col, select

from sitrepd.checkpoints.render import to_json
from sitrepd.runtime import Runtime
from sitrepd.sessions.models import Folder

log = logging.getLogger(__name__)


def write_files(runtime: Runtime, session_id: int, markdown: str, rendered: Mapping[str, Any]) -> None:
    """Rewrite `<data_dir>/latest/S1.md`, the same as JSON beside it, and the files that the folders ask for."""
    texts = [(path, markdown) for path in paths(runtime, session_id)]
    model = (runtime.settings.data_dir / "latest" / f"S{session_id}.json", to_json(rendered, None))
    for path, text in (model, *texts):
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_atomically(path, text)
        except OSError as error:
            log.warning("the latest checkpoint could not be written to %s: %s", path, error.strerror or error)


def paths(runtime: Runtime, session_id: int) -> Iterable[Path]:
    yield runtime.settings.data_dir / "latest" / f"S{session_id}.md"
    query = select(Folder.path, Folder.file).where(Folder.session_id == session_id, col(Folder.file).is_not(None))
    with runtime.store.read() as db:
        ties = db.exec(query).all()
    for folder, file in ties:
        top = Path(folder).parent if Path(folder).name == ".git" else Path(folder)
        yield top / str(file)


def write_atomically(path: Path, text: str) -> None:
    """A reader sees the old text or the new, never a part; the mode of a file that is there stays."""
    target = path.resolve()
    # Two sessions may have tied the same file.
    partial = target.with_name(f".{target.name}.{os.getpid()}-{get_ident()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        with suppress(FileNotFoundError):
            partial.chmod(target.stat().st_mode & 0o777)
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
