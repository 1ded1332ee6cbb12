"""What the log of a launch says of an end that nobody saw."""

from __future__ import annotations

import pytest
from sqlmodel import col, select

from sitrepd.findings.models import Finding
from sitrepd.launches import autopsy
from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.diagnosis.model import Diagnosis
from sitrepd.launches.models import Launch
from sitrepd.slices import load_registry
from sitrepd.storage.store import Store

READY = "[2026-11-02 10:00:33] The server is fired up and ready to roll!"
SERVED = '[2026-11-02 10:00:54] INFO:     127.0.0.1:44962 - "POST /generate HTTP/1.1" 200 OK'
REFUSED = SERVED.replace("200 OK", "422 Unprocessable Entity")
BROKEN = SERVED.replace("200 OK", "500 Internal Server Error")
UNBOUND = (
    "[2026-11-02 10:00:31] ERROR:    [Errno 13] error while attempting to bind on address ('127.0.0.1', 81): "
    "permission denied"
)
FULL = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static."


def ended(store: Store, told: Diagnosis) -> tuple[Launch, list[Finding]]:
    registry = load_registry()
    launch = Launch(id=1, engine="sglang", state="lost", watched=True, process={"adopted": True}, provenance="observed")
    store.write(lambda db: db.add(launch))
    store.write(lambda db: autopsy.record(db, registry, 1, told))
    with store.read() as db:
        return db.exec(select(Launch)).one(), list(db.exec(select(Finding).order_by(col(Finding.id))).all())


@pytest.mark.parametrize("line", [SERVED, REFUSED, BROKEN])
def test_requests_that_failed_are_not_why_it_ended(store: Store, line: str) -> None:
    launch, findings = ended(store, diagnose([READY, SERVED, line]))
    assert (launch.state, launch.failure, findings) == ("lost", None, [])


@pytest.mark.parametrize(
    ("lines", "kind", "words"),
    [
        ([UNBOUND], "observation", "port 81"),
        ([FULL, "Received sigquit from a child process."], "root_cause", "KV cache"),
    ],
)
def test_what_the_log_says_of_its_end_is_told(store: Store, lines: list[str], kind: str, words: str) -> None:
    launch, [finding] = ended(store, diagnose(lines))
    assert launch.state == "failed"
    assert words in (launch.failure or "")
    assert (finding.kind, finding.title) == (kind, launch.failure)
