"""A replay as a child process, for the tests of this folder."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import sys
from pathlib import Path

from tests.helpers import PATIENCE_S, free_port, wait_until

READY = "The server is fired up and ready to roll!"
RECORD = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)( TP\d+)?\] (.*)")


class Replay:
    """One running replay, its log and its port."""

    def __init__(self, folder: Path, *flags: str, duration_s: float = 0.8) -> None:
        self.port = free_port()
        self.log = folder / "replay.log"
        command = [sys.executable, "-m", "sitrepd.demo.replay", "--port", str(self.port)]
        self.argv = [*command, "--duration", str(duration_s), *flags]
        with self.log.open("wb") as sink:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT)

    def text(self) -> str:
        return self.log.read_bytes().decode()

    def lines(self) -> list[str]:
        return re.split(r"[\r\n]+", self.text())

    def messages(self) -> list[tuple[str, str]]:
        """(rank prefix, message) of every record, also of those glued to a bar."""
        found = (RECORD.search(line) for line in self.lines())
        return [(match[2] or "", match[3]) for match in found if match]

    def wait_for(self, text: str) -> None:
        wait_until(lambda: text in self.text() or self.process.poll() is not None)
        assert text in self.text(), self.text()[-2000:]

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def status(self, path: str) -> int | None:
        """None while the connection is refused."""
        try:
            return self.ask("GET", path)[0]
        except ConnectionRefusedError:
            return None

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(PATIENCE_S)
