"""The demo's daemon as the demo sees it: started in a folder of its own, asked by its socket, gone at the end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from sitrepd.cli.client import Client, Unreachable
from sitrepd.cli.connection import Target
from sitrepd.demo import keeper
from sitrepd.errors import SitrepError

_START_S = 40.0
_END_S = 30.0


class Kept:
    """A daemon and all that it starts, below a keeper that ends them when this block ends or this process dies."""

    folder: Path
    client: Client

    def __enter__(self) -> Kept:
        keeper.adopt_orphans()
        self._keeper = subprocess.Popen(
            [sys.executable, "-P", "-m", "sitrepd.demo.keeper"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            self._begin()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.end()

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def _begin(self) -> None:
        report = self._report()
        self.folder, self.pid = Path(report["folder"]), report["daemon"]
        self.client = Client(Target(socket_path=self.store / "sitrep.sock"), {"X-Sitrep-Client": "demo"})
        deadline = time.monotonic() + _START_S
        while True:
            try:
                self.client.get("/health")
                return
            except Unreachable:
                self.check()
                if time.monotonic() > deadline:
                    raise SitrepError(f"The demo's daemon did not listen within {_START_S:.0f} s.") from None
            time.sleep(0.05)

    def check(self, wait_s: float = 0.0) -> None:
        """SitrepError with its last words where the daemon has ended by itself, or ends within the time."""
        with suppress(subprocess.TimeoutExpired):
            self._keeper.wait(wait_s)
            self._report()

    def _report(self) -> dict[str, Any]:
        assert self._keeper.stdout is not None
        line = self._keeper.stdout.readline()
        if not line:
            raise SitrepError("The demo's daemon was ended from outside.")
        report: dict[str, Any] = json.loads(line)
        if "ended" in report:
            raise SitrepError(f"The demo's daemon ended ({report['ended']}). {report['said']}")
        return report

    def end(self) -> None:
        """Return once daemon, replay and store are gone; signals are ignored from here on."""
        keeper.ignore_signals()
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        try:
            self._keeper.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._keeper.kill()
            self._keeper.wait()
        self._keeper.stdout.close()
        if self._keeper.returncode != 0:
            # Somebody killed the keeper: what was below it is below this process now.
            keeper.end_all(getattr(self, "folder", None))
