"""What a request to a model must hold after a compaction."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.agents.clients.having import Home, stored
from tests.agents.clients.model import Asked

HANDED = "· handed over "
_LINE_1 = re.compile(r"Sitrep (C\d+) · S\d+ tuning · handed over \S+ as delivery (\d+)")


def whole_and_once(at: Home, asked: Asked) -> tuple[str, str]:
    """The checkpoint and the delivery of the one hand-over in a request; all of the stored text is in it."""
    found = _LINE_1.findall(asked.text)
    assert len(found) == 1, f"{len(found)} hand-overs in {[part[:80] for part in asked.parts]}"
    checkpoint, delivery = found[0]
    text = stored(at, checkpoint).strip()
    assert len(text) > 4_000
    assert asked.text.count(text) == 1, "the text was shortened or changed on its way"
    return checkpoint, delivery


@contextmanager
def deaf_daemon(folder: Path) -> Iterator[Path]:
    """A store whose daemon takes connections and never answers."""
    folder.mkdir(parents=True)
    (folder / "token").write_text("x\n")
    held: list[socket.socket] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "sitrep.sock"))
        listener.listen(64)
        listener.settimeout(0.2)
        over = threading.Event()

        def accept() -> None:
            while not over.is_set():
                try:
                    held.append(listener.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield folder
        finally:
            over.set()
            thread.join()
            for one in held:
                one.close()
