"""Search, timeline, comparison, names and pins, retention, from the command line."""

from __future__ import annotations

import pytest
from tests.cli.running import Sitrep


@pytest.mark.slow
def test_what_was(shared: Sitrep) -> None:
    shared("finding", "add", "rejected", "Okapi cache", "--reason", "It is slow.").ok()
    first = shared("checkpoint", "--json").json["id"]
    finding = shared("search", "okapi", "slow", "--json").json["data"][0]["id"]
    shared("finding", "edit", finding, "--status", "refuted").ok()
    second = shared("checkpoint", "--json").json["id"]

    told = shared("search", "okapi cache", "--kind", "finding").ok().out
    assert told.startswith(f"{finding} finding (rejected, refuted)  **Okapi cache**  S1\n    ")
    assert "Nothing that was told holds these words." in shared("search", "quagga").ok().out

    compared = shared("checkpoint", "diff", second, first).ok().out
    assert f"Holds no more in {second}:\n  {finding}  finding (refuted)  Okapi cache\n" in compared
    assert "      status open → refuted\n" in compared

    lines = shared("timeline", "--fact", finding).ok().out.splitlines()
    assert [line.split("  ")[2].strip() for line in lines[1:]] == [
        "finding told", "finding changed: status open → refuted",
    ]  # fmt: skip
    assert "next_cursor" in shared("timeline", "--limit", "1", "--newest", "--json").json

    shared("checkpoint", "pin", first, "--name", "before the okapi").ok()
    assert "before the okapi  yes" in shared("checkpoint", "list").ok().out
    assert shared("checkpoint", "show", "before the okapi").ok().out.startswith(f"Sitrep {first} ")
    shared("checkpoint", "unname", first).ok()
    assert f"{first} is not pinned." in shared("checkpoint", "unpin", first).ok().out

    shared("resume", "--to", "agent").ok()
    waiting = shared("delivery", "list", "--waiting").ok().out
    assert "agent" in waiting
    assert "not known" in waiting
    assert shared("retention", "--dry-run").ok().out.startswith("Would be dropped: checkpoints 0; ")
