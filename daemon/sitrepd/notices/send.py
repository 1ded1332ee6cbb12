"""Sends a notice, a few times where that fails; nobody waits for it."""

from __future__ import annotations

import logging
import queue
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from http.client import HTTPException

from sitrepd.notices.models import Notice
from sitrepd.notices.targets import Request, Target

log = logging.getLogger(__name__)
_PAUSES_S = (0.0, 2.0, 10.0)
_TIMEOUT_S = 10.0
_REFUSED = range(300, 500)
_AGAIN = (408, 425, 429)
_MOST_WAITING = 1000
_MOST_ANSWER = 1 << 16


class Sender:
    """One thread for each target, which ends with the daemon: a receiver that hangs holds up nobody else."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._waiting: queue.SimpleQueue[Notice] = queue.SimpleQueue()
        threading.Thread(target=self._work, name=f"notices to {target.name}", daemon=True).start()

    def send(self, notice: Notice) -> None:
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put(notice)

    def _work(self) -> None:
        while True:
            send(self._target, self._waiting.get())


def send(target: Target, notice: Notice, pauses_s: Sequence[float] = _PAUSES_S) -> bool:
    """Whether it arrived; what the receiver refuses is not sent again."""
    why = ""
    for pause_s in pauses_s:
        time.sleep(pause_s)
        try:
            _post(target.request(notice))
            return True
        except urllib.error.HTTPError as error:
            error.close()
            why = f"HTTP {error.code}"
            if error.code in _REFUSED and error.code not in _AGAIN:
                break
        except (OSError, ValueError, HTTPException) as error:
            why = str(getattr(error, "reason", None) or error) or type(error).__name__
    log.warning("the notice %r did not reach %s: %s", notice.title, target.name, why)
    return False


class _StaysHere(urllib.request.HTTPRedirectHandler):
    """A POST that is sent elsewhere would become a GET, and take name and password along."""

    def redirect_request(self, *_: object, **__: object) -> None:
        return None


def _post(request: Request) -> None:
    headers = {"User-Agent": "sitrep", **request.headers}
    asked = urllib.request.Request(request.url, request.body, headers, method="POST")  # the settings allow http alone
    with urllib.request.build_opener(_StaysHere).open(asked, timeout=_TIMEOUT_S) as answer:
        answer.read(_MOST_ANSWER)
