"""The six lines in AGENTS.md: put in once, renewed where they stand."""

from __future__ import annotations

import re

import pytest

from sitrepd.agents.install.block import BEGIN, END, LINES, with_block
from sitrepd.cli import root


@pytest.mark.parametrize("text", ["", "# Rules\n\nBe brief.\n", "# Rules", "# Rules\r\nBe brief.\r\n"])
def test_it_is_put_in_once(text: str) -> None:
    once = with_block(text)
    assert once.startswith(text)
    assert with_block(once) == once
    assert once.count(BEGIN) == once.count(END) == 1


def test_an_older_one_is_renewed_where_it_stands() -> None:
    old = "# Rules\n\n<!-- sitrep: older -->\n- old\n<!-- /sitrep -->\n\n## More\n\\1 \\g<0>\n"
    new = with_block(old)
    assert new.startswith(f"# Rules\n\n{BEGIN}\n")
    assert new.endswith(f"{END}\n\n## More\n\\1 \\g<0>\n")
    assert "- old" not in new


def test_it_has_six_lines_that_name_verbs_that_there_are() -> None:
    assert len(LINES) == 6
    verbs = {tuple(words.split()) for line in LINES for words in re.findall(r"`sitrep ([a-z-]+(?: [a-z]+)?)", line)}
    assert ("directive", "confirm") in verbs
    for verb in verbs:
        command = root.load(verb[0])
        subcommands = getattr(command, "commands", None)
        assert subcommands is None or len(verb) == 1 or verb[1] in subcommands
