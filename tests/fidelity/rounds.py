"""Work that goes on from checkpoint to checkpoint: each mind has only what the one before it wrote down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from tests.fidelity import reading, sessions, stores
from tests.fidelity.sessions import launch
from tests.fidelity.stores import Mind, fresh_mind
from tests.fidelity.words import Words
from tests.fidelity.world import Directive, Finding, Run, Step, World, key, launch_line, run_line

ROUNDS = 5


@dataclass(frozen=True)
class Way:
    """How a checkpoint is handed on: the form and budget that is asked for, and what makes a file to import of it."""

    name: str
    form: str
    budget: int | str
    file: Callable[[str], bytes]


WAYS = (
    Way("json", "json", "full", str.encode),
    Way("json of 9000 characters", "json", 9000, str.encode),
    Way("markdown", "md", 9000, lambda text: stores.lines(reading.lines(text))),
)


@dataclass(frozen=True)
class Round:
    """What a mind wrote, and what is true by then."""

    number: int
    text: str
    world: World


def play(seed: int, way: Way, look: Callable[[Round], None], rounds: int = ROUNDS) -> None:
    """The first mind is told everything; each later one reads a checkpoint, goes on, and writes the next."""
    world, words = sessions.make(seed, messages=50), Words(f"rounds {seed}")
    with fresh_mind() as mind:
        mind.take(sessions.session_file(world))
        handed = mind.checkpoint(way.form, way.budget)
        look(Round(0, mind.checkpoint("md", 9000), world))
    for number in range(1, rounds + 1):
        with fresh_mind() as mind:
            mind.take(way.file(handed), f"round-{number}.{way.form}")
            go_on(world, words, mind)
            handed = mind.checkpoint(way.form, way.budget)
            look(Round(number, mind.checkpoint("md", 9000), world))


def go_on(world: World, words: Words, mind: Mind) -> None:
    """Something of each pinned type is added, and something replaced, in the store as in the world."""
    _directives(world, words, mind)
    _causes(world, words, mind)
    _options(world, words, mind)
    _steps(world, words, mind)
    _servers(world, words, mind)


def _directives(world: World, words: Words, mind: Mind) -> None:
    old = next(one for one in world.directives if one.active)
    mind.change("directives", mind.find("directives", text=old.text), active=False)
    old.active = False
    new = Directive(words.sentence(50))
    mind.tell("directives", text=new.text)
    world.directives.append(new)


def _causes(world: World, words: Words, mind: Mind) -> None:
    old = next(one for one in world.findings if one.kind == "root_cause" and one.status == "confirmed" and not one.over)
    new = Finding("root_cause", words.sentence(40), detail=words.sentence(40), supersedes=old)
    _tell(mind, new)
    old.replaced = True
    world.findings.append(new)


def _options(world: World, words: Words, mind: Mind) -> None:
    old = world.rejected[0]
    mind.change("findings", mind.find("findings", title=old.title), status="refuted")
    old.status = "refuted"
    for _ in range(2):
        new = Finding("rejected", words.sentence(40), reason=words.sentence(40))
        _tell(mind, new)
        world.findings.append(new)


def _tell(mind: Mind, new: Finding) -> None:
    told = {name: value for name in ("detail", "reason") if (value := getattr(new, name))}
    if new.supersedes is not None:
        told["supersedes"] = mind.find("findings", title=new.supersedes.title)
    mind.tell("findings", kind=new.kind, title=new.title, status=new.status, **told)


def _steps(world: World, words: Words, mind: Mind) -> None:
    done = world.next_step
    mind.change("next-steps", mind.find("next-steps", text=done.text), state="done")
    done.state = "done"
    # Before the ones that are open, and after: what comes next is not always the newest.
    orders = [step.order for step in world.steps if step.open]
    for order in (min(orders) - words.number(1, 5), max(orders) + words.number(1, 5)):
        new = Step(words.sentence(50), order)
        mind.tell("next-steps", text=new.text, order=new.order)
        world.steps.append(new)


def _servers(world: World, words: Words, mind: Mind) -> None:
    """The server that was loading is measured, and is the best; then it is stopped, and the next one loads."""
    server = next(one for one in world.launches if one.alive)
    number = mind.find("launches", name=server.name)
    value = world.best.value + words.decimal(1, 9, 2) + Decimal("0.01")
    best = Run(words.name(), value, {"page_size": words.number()}, server, workload=world.baseline.workload)
    mind.tell("benchmarks", **_body(run_line(best, number)))
    mind.change("launches", number, state="exited", exit_code=0)
    server.state = "exited"
    world.runs.append(best)
    new = launch(words, "loading", flags=2)
    mind.tell("launches", start=False, **_body(launch_line(new)))
    world.launches.append(new)


def _body(line: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in line.items() if name not in ("type", "key")}


__all__ = ["ROUNDS", "WAYS", "Round", "Way", "go_on", "key", "play"]
