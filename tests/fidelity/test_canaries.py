"""Every pinned fact at every size, nothing old as current, and what is done with it from the text alone."""

from __future__ import annotations

import pytest
from tests.fidelity import measure, sessions, use
from tests.fidelity.sessions import LARGE, MEDIUM, SMALL, Size
from tests.fidelity.stores import fresh_mind


def wrong(lines: object) -> list[str]:
    return [f"{line} {line.absent}" for line in lines if not line.good]  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("size", [SMALL, MEDIUM, LARGE], ids=["small", "medium", "large"])
def test_what_is_pinned_stands_at_every_budget_that_has_room_for_it(size: Size) -> None:
    sizes = {budget: (size,) for budget, fitting in measure.SIZES.items() if size in fitting}
    assert wrong(measure.canaries([1], 20, sizes)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 14))
def test_what_is_pinned_stands_in_long_sessions(seed: int) -> None:
    """Up to 5,000 messages, which change nothing."""
    assert wrong(measure.canaries([seed], 400 * (seed - 1))) == []


def test_the_measure_sees_what_is_wrong() -> None:
    """A text with a fact left out, a fact changed by a digit, an old fact told as current, a decoy, a wrong step."""
    world = sessions.make(7, messages=20)
    with fresh_mind() as mind:
        mind.take(sessions.session_file(world))
        text = mind.checkpoint("md", 9000)
    assert spoilt(text, world) == set()
    directive = next(one.text for one in world.directives if one.active)
    assert spoilt(text.replace(directive, directive[:-2]), world) == {"directive"}
    value = str(world.best.value)
    assert "best" in spoilt(text.replace(f"{value} ", f"{value[:-1]}{(int(value[-1]) + 1) % 10} "), world)
    old = next(one.title for one in world.findings if one.over and one.title not in text)
    assert spoilt(text.replace("## Best", f"- F99 constraint (confirmed): {old}\n\n## Best"), world) == {
        "over_told_as_over"
    }
    assert spoilt(f"{text}- {world.decoys[3]} is best\n", world) == {"only_facts"}
    assert spoilt(text.replace(world.next_step.text, "Rest."), world) == {"next_step", "next_step_is_right"}
    assert world.best.launch is not None
    word = world.best.launch.argv[-1]
    assert {"best_command", "command_is_argv"} <= spoilt(text.replace(word, word[1:]), world)
    rejected = world.rejected[0].title
    assert spoilt(text.replace("## Goal", f"- N99 (todo, order 99): {rejected}\n\n## Goal"), world) == {
        "no_rejected_proposed"
    }


def spoilt(text: str, world: sessions.World) -> set[str]:
    tally = measure.Tally()
    measure.look(tally, text, world, 10_000)
    return {line.type for line in tally.lines() if not line.good}


def test_a_command_is_read_as_a_shell_reads_it() -> None:
    told = "A=1 B='x y' nohup python3 -m server --json '{\"a\": \"b | c\"}' --n 2 > /tmp/l.log 2>&1 &"
    assert use.command(told) == use.Command(
        {"A": "1", "B": "x y"}, ["python3", "-m", "server", "--json", '{"a": "b | c"}', "--n", "2"]
    )
    assert use.command("vllm serve /m 2> /tmp/e") == use.Command({}, ["vllm", "serve", "/m"])
    assert use.command("vllm serve /m --n 2 &") == use.Command({}, ["vllm", "serve", "/m", "--n", "2"])
