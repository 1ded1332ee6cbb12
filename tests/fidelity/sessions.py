"""Sessions made by a seed: facts of every type, many of each, among what is over, and messages that tempt."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

import simplejson
from tests.fidelity.words import Words
from tests.fidelity.world import Directive, Fact, Finding, Launch, Run, Step, World, key


@dataclass(frozen=True)
class Size:
    """How much is pinned, and how long its prose is; the rest of a session is the same at every size."""

    directives: int
    root_causes: int
    rejected: int
    flags: int
    prose: int


# What fits into 2,000, 4,000 and 9,000 characters beside ids, headings and the word on what is left out.
SMALL = Size(directives=4, root_causes=2, rejected=3, flags=1, prose=36)
MEDIUM = Size(directives=8, root_causes=5, rejected=7, flags=6, prose=60)
LARGE = Size(directives=14, root_causes=9, rejected=15, flags=12, prose=90)


def make(seed: int, size: Size = SMALL, messages: int = 300) -> World:
    """The session of that seed."""
    words = Words(seed)
    world = World(words.name(), words.sentence(60))
    _pinned(world, words, size)
    _over(world, words)
    _runs(world, words, size)
    _bystanders(world, words)
    _messages(world, words, messages)
    words.random.shuffle(world.more)
    words.random.shuffle(world.findings)
    return world


def session_file(world: World) -> bytes:
    return "\n".join(simplejson.dumps(line, use_decimal=True, ensure_ascii=False) for line in world.lines()).encode()


# --- what holds --------------------------------------------------------------------------------------------------


def _pinned(world: World, words: Words, size: Size) -> None:
    world.directives += [Directive(words.sentence(size.prose)) for _ in range(size.directives)]
    world.findings += [
        Finding("root_cause", words.sentence(size.prose), detail=words.sentence(size.prose))
        for _ in range(size.root_causes)
    ]
    world.findings += [
        Finding("rejected", words.sentence(size.prose), reason=words.sentence(size.prose)) for _ in range(size.rejected)
    ]
    # The one to do next is neither the first that was told nor that with the lowest order of all.
    world.steps += [Step(words.sentence(60), order) for order in (7, 3, 5)]
    world.steps += [Step(words.sentence(50), 1, "done"), Step(words.sentence(50), 2, "dropped")]
    world.launches.append(launch(words, "loading", flags=1))


def launch(words: Words, state: str, flags: int) -> Launch:
    """A server with flags that nobody would guess; told as it was pasted, or by its words."""
    name, log, port = words.name(), words.path(".log"), words.number(20_000, 60_000)
    env = {f"NCCL_{words.name().upper().replace('-', '_')}": str(words.number()) for _ in range(min(flags, 3))}
    argv = ["python3", "-m", "sglang.launch_server", "--model-path", words.path(), "--port", str(port)]
    for _ in range(flags):
        argv += words.flag().split()
    if words.random.random() < 0.5:
        argv += ["--json-model-override-args", f'{{"{words.name()}": {words.number()}}}']
        return Launch(name, state, log, argv, env, port=port)
    line = " ".join([*(f"{one}={value}" for one, value in env.items()), "nohup", shlex.join(argv)])
    return Launch(name, state, log, argv, env, f"{line} > {log} 2>&1 &", port=port)


# --- what is over ------------------------------------------------------------------------------------------------


def _over(world: World, words: Words) -> None:
    world.directives += [Directive(words.sentence(50), active=False) for _ in range(4)]
    kinds = ("root_cause", "rejected", "constraint", "decision", "hypothesis", "observation")
    for kind in kinds:
        old = Finding(kind, words.sentence(50), words.one_of("confirmed", "superseded"), reason=words.sentence(40))
        old.replaced = True
        new = Finding(kind, words.sentence(40), "open", supersedes=old)
        refuted = Finding(kind, words.sentence(50), "refuted", detail=words.sentence(40))
        gone = Finding(kind, words.sentence(50), "superseded")
        # What replaces a rejected option or a cause is not one itself, or it would be pinned.
        new.kind = "observation" if kind in ("root_cause", "rejected") else kind
        world.findings += [old, new, refuted, gone]
    world.steps += [Step(words.sentence(40), 100 + n, words.one_of("done", "dropped")) for n in range(8)]
    world.launches += [launch(words, words.one_of("exited", "failed", "lost"), flags=2) for _ in range(20)]


def _runs(world: World, words: Words, size: Size) -> None:
    """A baseline, the best, worse ones, and better ones that do not count."""
    server = launch(words, "exited", size.flags)
    base = words.decimal(80, 90, 2)
    best = base + words.decimal(20, 30, 2)
    world.launches.append(server)
    runs = [Run(words.name(), base, {"speculative_algorithm": None}, baseline=True)]
    for steps in range(1, 12):
        config = {"speculative_algorithm": "EAGLE3", "speculative_num_steps": steps, "page_size": words.number(2, 999)}
        runs.append(Run(words.name(), base - words.decimal(1, 20, 1), config, words.random.choice(world.launches[1:])))
    runs.insert(words.random.randrange(len(runs)), _best(words, best, server))
    for _ in range(3):
        runs.append(Run(words.name(), best + words.decimal(5, 50, 1), comparable=False, note=words.sentence(40)))
        runs.append(Run(words.name(), best + words.decimal(5, 50, 1), workload={"num_prompts": words.number(65, 999)}))
    for run in runs:
        run.others = {"median_ttft_ms": words.decimal(100, 2000, 1)}
    world.runs += runs


def _best(words: Words, value: Any, server: Launch) -> Run:
    config = {"speculative_algorithm": "EAGLE3", "speculative_num_steps": 2, "page_size": words.number(1000, 9999)}
    return Run(words.name(), value, config, server)


# --- the other types ---------------------------------------------------------------------------------------------


def _bystanders(world: World, words: Words) -> None:
    for kind in ("constraint", "decision", "hypothesis", "observation"):
        for _ in range(4):
            status = "open" if kind in ("hypothesis", "observation") else "confirmed"
            world.findings.append(Finding(kind, words.sentence(50), status, reason=words.sentence(40)))
    for number in range(2):
        _host(world, words, number)
    for _ in range(3):
        _model(world, words)
        _reference(world, words)
        _training(world, words)
        _profile(world, words)
        _stack(world, words)
        _sweep(world, words)
    for _ in range(10):
        path, role, note = words.path(), words.name(), words.sentence(40)
        _tell(world, "artifact", (path, role, note), path=path, role=role, note=note, host="#host0")


def _tell(world: World, kind: str, texts: tuple[Any, ...], **fields: Any) -> None:
    world.more.append({"type": kind} | fields)
    world.extras.append(Fact(kind, tuple(str(text) for text in texts)))


def _host(world: World, words: Words, number: int) -> None:
    name, gpu, memory = words.name(), f"NVIDIA {words.name()}", words.number(10**10, 10**11)
    gpus = [{"index": index, "name": gpu, "memory_bytes": memory} for index in range(8)]
    link, cpu = words.name(), words.name()
    texts = (name, f"8 × {gpu}", memory, link, cpu)
    _tell(world, "host", texts, key=f"#host{number}", name=name, gpus=gpus, interconnect=link, cpu=cpu, cpu_count=64)


def _model(world: World, words: Words) -> None:
    name, path, note = words.name(), words.path(), words.sentence(40)
    weights, kv = words.number(10**9, 10**12), words.number(10**4, 10**6)
    fields = {"name": name, "path": path, "weight_bytes": weights, "kv_bytes_per_token": kv, "note": note}
    _tell(world, "model", (name, path, weights, kv, note), key=key(name), **fields)


def _reference(world: World, words: Words) -> None:
    name, source, value = words.name(), words.name(), words.decimal(1, 9, 3)
    _tell(world, "reference", (name, source, value), name=name, source=source, metrics={"accept_length": value})


def _training(world: World, words: Words) -> None:
    name, points = words.name(), [words.decimal(0, 1, 4) for _ in range(3)]
    told = [{"epoch": epoch, "metrics": {"accept_rate": value}} for epoch, value in enumerate(points, 1)]
    _tell(world, "training", (name, *points), name=name, points=told)


def _profile(world: World, words: Words) -> None:
    phases = [(words.name(), words.number(1, 999), words.decimal(1, 9999, 1)) for _ in range(3)]
    told = [{"name": name, "calls": calls, "total_ms": total} for name, calls, total in phases]
    texts = tuple(f"{name} {calls} calls total {total} ms" for name, calls, total in phases)
    _tell(world, "profile", texts, launch=key(world.launches[0].name), phases=told)


def _stack(world: World, words: Words) -> None:
    version, driver, commit = f"0.{words.number()}.{words.number()}", f"580.{words.number()}", words.name()
    git = [{"path": words.path(), "commit": commit, "dirty": True}]
    fields = {"launch": key(world.launches[1].name), "packages": {"sglang": version}, "driver": driver, "git": git}
    _tell(world, "stack", (f"sglang {version}", driver, commit, git[0]["path"]), **fields)


def _sweep(world: World, words: Words) -> None:
    name, steps = words.name(), [words.number(), words.number()]
    parameters = {"speculative_num_steps": steps}
    _tell(world, "sweep", (name, *steps), key=key(name), name=name, parameters=parameters, state="paused")
    world.more.append({"type": "trial", "sweep": key(name), "launch": key(world.launches[2].name), "state": "done"})


# --- messages ----------------------------------------------------------------------------------------------------


def _messages(world: World, words: Words, how_many: int) -> None:
    """What was only talked about is no fact: none of it may stand in a checkpoint."""
    temptations = (
        "The best configuration is {} with 999.9 tok/s.", "Next we must try {}.", "Directive of the user: {}.",
        "Root cause confirmed: {}.", "{} was rejected.", "The server {} is ready.",
    )  # fmt: skip
    for number in range(1, how_many + 1):
        decoy = words.name()
        text = words.random.choice(temptations).format(decoy)
        role = "user" if number % 2 else "assistant"
        world.decoys.append(decoy)
        world.more.append({"type": "message", "number": number, "role": role, "text": text})
