"""Handing the checkpoint over, also when the daemon is gone."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.running import Sitrep

pytestmark = pytest.mark.slow  # each test starts daemons of its own

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "tests/data/reference-session.jsonl"


@pytest.fixture
def told(shared: Sitrep) -> Iterator[str]:
    """The reference session; closed afterwards, so that the shared one alone is open."""
    session = shared("import", str(REFERENCE), "--again", "--json").json["session"]
    yield session
    shared("session", "close", session).ok()


def test_checkpoint_and_resume_print_it_and_nothing_else(shared: Sitrep, told: str) -> None:
    made = shared("checkpoint", "--session", told).ok()
    assert made.err == ""
    assert made.out.startswith("Sitrep C")
    assert "94.0 tok/s" in made.out
    assert shared("checkpoint", "--session", told).ok().out == made.out, "nothing has changed"
    handed = shared("resume", "--session", told, "--to", "opencode").ok()
    assert handed.err == ""
    assert handed.out.startswith("Sitrep C")
    assert made.out.split("\n", 1)[1] in handed.out
    again = shared("resume", "--session", told).ok().out
    assert again.split("\n", 1)[0] != handed.out.split("\n", 1)[0], "line 1 is never the same twice"
    assert len(shared("resume", "--session", told, "--budget", "1500").ok().out) <= 1500
    assert len(shared("resume", "--session", told, "--budget", "500t").ok().out) <= 2000
    assert "budget='few'" in shared("resume", "--session", told, "--budget", "few").refused()
    assert set(shared("resume", "--session", told, "--json").json) == {"checkpoint", "delivery", "text"}


def test_formats(shared: Sitrep) -> None:
    shared("directive", "add", "No hacks.", "--session", "S1").ok()
    model = shared("checkpoint", "--session", "S1", "--format", "json").json
    assert shared("checkpoint", "--session", "S1", "--json").json == model
    assert model["session"]["id"] == "S1"
    name = model["id"]
    assert shared("checkpoint", "--session", "S1", "--format", "html").ok().out.lstrip().startswith("<")
    stored = shared("checkpoint", "show", name).ok().out
    assert stored == shared("checkpoint", "latest", "--session", "S1").ok().out
    assert "No hacks." in shared("checkpoint", "show", name, "--format", "txt").ok().out
    assert shared("checkpoint", "show", name, "--json").json["markdown"] == stored
    assert shared("checkpoints", "--session", "S1", "--json").json["data"][0]["id"] == name
    assert name in shared("checkpoints", "--all").ok().out


def test_without_a_daemon_the_last_one_is_printed_with_a_word(sitrep: Sitrep) -> None:
    sitrep("session", "open", "one").ok()
    sitrep("directive", "add", "No hacks.").ok()
    stored = sitrep("checkpoint").ok().out
    sitrep("session", "open", "two").ok()
    sitrep("checkpoint", "--session", "S2").ok()
    sitrep("shutdown").ok()
    assert "say which session with --session" in sitrep("resume", "--no-start").refused(3)
    left = sitrep("resume", "--no-start", "--session", "S1").ok()
    head, _, rest = left.out.partition("\n\n")
    assert head.startswith("(The daemon gives none: ")
    assert f"{sitrep.store}/latest/S1.md" in head
    assert rest == stored
    assert left.err == ""
    for budget in (400, 1000):
        short = sitrep("resume", "--no-start", "--session", "S1", "--budget", str(budget)).ok().out
        assert len(short) <= budget
        assert short.startswith("(The daemon gives none: ")
        assert "No hacks." in short or budget == 400
    told = sitrep("resume", "--no-start", "--session", "S1", "--json").json
    assert (told["live"], told["text"]) == (False, left.out)
    (sitrep.store / "latest/S2.md").unlink()
    assert sitrep("resume", "--no-start").ok().out == left.out, "the only one"
    (sitrep.store / "latest/S1.md").unlink()
    assert "No checkpoint was left behind" in sitrep("resume", "--no-start").refused(3)


def test_a_store_that_cannot_be_served_still_gives_it(sitrep: Sitrep) -> None:
    sitrep("session", "open", "one").ok()
    stored = sitrep("checkpoint").ok().out
    sitrep("shutdown").ok()
    (sitrep.store / "sitrep.db").write_bytes(b"not a database" * 1000)
    done = sitrep("resume").ok()
    assert done.out.endswith(stored)
    assert "The daemon did not start" in done.out.splitlines()[0]


def test_a_daemon_that_hangs_or_cannot_write_is_not_waited_for(sitrep: Sitrep) -> None:
    sitrep("session", "open", "one").ok()
    stored = sitrep("checkpoint").ok().out
    pid = sitrep.daemon_pid()
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        done = sitrep("resume", "--timeout", "1").ok()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "it took too long" in done.out.splitlines()[0]
    assert done.out.endswith(stored)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    done = sitrep("resume").ok()
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert done.out.endswith(stored)
    assert done.out.startswith("(The daemon gives none: ")
