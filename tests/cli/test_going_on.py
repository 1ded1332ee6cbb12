"""`sitrep import` of what `sitrep checkpoint --json` printed."""

from __future__ import annotations

import json

from tests.cli.running import Sitrep


def test_a_checkpoint_is_read_back_from_a_pipe(shared: Sitrep) -> None:
    session = shared("session", "open", "to be handed on", "--json").json["id"]
    try:
        shared("directive", "add", "Keep | the `margin`.", "--session", session).ok()
        document = shared("checkpoint", "--json", "--session", session).ok().out
        told = shared("import", "-", stdin=document).ok()
    finally:
        shared("session", "close", session).ok()
    restored = told.out.split(":")[0].removeprefix("Imported into ")
    try:
        assert "1 directive" in told.out
        text = shared("checkpoint", "--session", restored).ok().out
    finally:
        shared("session", "close", restored).ok()
    assert ": Keep | the `margin`." in text
    assert f"imported from {json.loads(document)['id']} in stdin" in text
