"""`sitrep sweep`: planned sets of trials, and how they are carried out."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.launches import surroundings
from sitrepd.cli.nouns import Field, NounTable, add_add, add_edit, add_list
from sitrepd.cli.verbs import Cli, noun, verb

TABLE = NounTable(
    "sweep",
    "sweeps",
    (
        Field("name", "What it is called.", argument=True),
        Field("template", "The launch that the trials vary, as JSON (`@FILE` reads a file).", values.strict_json,
              metavar="JSON"),
        Field("parameters", "Names and their values, as JSON.", values.strict_json, metavar="JSON"),
        Field("constraints", "Which combinations count, as JSON.", values.strict_json, metavar="JSON"),
        Field("state", "planned, running, paused, done or stopped."),
        Field("why", "Why it is in that state."),
    ),
    (("ID", "id"), ("NAME", "name"), ("STATE", "state"), ("WHY", "why"),
     ("PARAMETERS", lambda told: _parameters(told.get("parameters"))), ("AT", "at")),
)  # fmt: skip

app = noun(
    "Sweeps: trials of configurations, launched, measured and stopped one after another. `sitrep sweep run FILE`."
)
File = Annotated[
    str | None, typer.Argument(metavar="FILE", help="A sweep in TOML or YAML (`-`: TOML from standard input).")
]
Sweep = Annotated[str, typer.Argument(metavar="W", help="The sweep.")]
Launch = Annotated[str | None, typer.Option("--launch", metavar="L", help="The launch that the trials vary.")]
Command = Annotated[
    str | None,
    typer.Option("--command", metavar="LINE", help="Or the shell line that they vary; {name} is a parameter."),
]
Vary = Annotated[
    list[str] | None,
    typer.Option(
        "--vary", metavar="NAME=VALUES",
        help="A flag, or a variable in capitals, with values: 1..10, 1..9/2, or a,b,absent; may be repeated.",
    ),
]  # fmt: skip
Derive = Annotated[
    list[str] | None,
    typer.Option("--derive", metavar="NAME=EXPRESSION", help="A flag that is computed from others; may be repeated."),
]
Where = Annotated[
    list[str] | None, typer.Option("--where", metavar="EXPRESSION", help="What must hold of a trial; may be repeated.")
]
Baseline = Annotated[
    list[str] | None,
    typer.Option("--baseline", metavar="NAME=VALUE", help="A setting of the baseline trial; may be repeated."),
]
Tool = Annotated[str | None, typer.Option("--tool", help="What measures, as for `sitrep bench run`; sglang if absent.")]
Preset = Annotated[str | None, typer.Option("--preset", help="Its workload.")]
Repeat = Annotated[int | None, typer.Option("--repeat", min=1, max=100, help="Repeats of each trial; 3 if absent.")]
Flags = Annotated[list[str] | None, typer.Option("--bench", metavar="FLAG", help="A flag of it; may be repeated.")]
Named = Annotated[str | None, typer.Option("--name", help="What the sweep is called.")]
Search = Annotated[str | None, typer.Option("--search", help="grid, random or tpe (which needs Optuna).")]
Trials = Annotated[int | None, typer.Option("--trials", min=1, help="How many trials at the most.")]
Hours = Annotated[float | None, typer.Option("--hours", min=0, help="After how many hours nothing more begins.")]
Early = Annotated[bool, typer.Option("--early-stop", help="Measure no further what cannot win.")]
Metric = Annotated[str | None, typer.Option("--metric", help="What decides.")]
Force = Annotated[bool, typer.Option("--force", help="Although the check says that a trial cannot start.")]


@verb(app, "check")
def check(
    cli: Cli, file: File = None, launch: Launch = None, command: Command = None, vary: Vary = None,
    derive: Derive = None, where: Where = None, baseline: Baseline = None, tool: Tool = None, preset: Preset = None,
    repeat: Repeat = None, bench: Flags = None, name: Named = None, search: Search = None, trials: Trials = None,
    hours: Hours = None, early_stop: Early = False, metric: Metric = None, force: Force = False,
) -> None:  # fmt: skip
    """Say what a sweep would do: its trials with their commands, how long starts took. Nothing is stored or started.

    What cannot be (a combination that the engine refuses, values without an end, an unknown flag) is an error.
    """
    told = _asked(cli, locals())
    cli.show(cli.client.post("/sweeps/check", told), _say_plan)


@verb(app, "run")
def run(
    cli: Cli, file: File = None, launch: Launch = None, command: Command = None, vary: Vary = None,
    derive: Derive = None, where: Where = None, baseline: Baseline = None, tool: Tool = None, preset: Preset = None,
    repeat: Repeat = None, bench: Flags = None, name: Named = None, search: Search = None, trials: Trials = None,
    hours: Hours = None, early_stop: Early = False, metric: Metric = None, force: Force = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Do not watch it; it goes on in the daemon.")] = False,
) -> None:  # fmt: skip
    """Run a sweep: each trial is checked, launched, awaited, measured and stopped, then the next.

    It is shown as it goes; Ctrl-C ends the watching alone. The daemon may die meanwhile: the next one goes on.
    """
    answer = cli.client.post("/sweeps/run", _asked(cli, locals()))
    if detach:
        cli.show(answer, lambda told: output.say(f"{told['id']} has {told['count']} trials: `sitrep sweep watch`."))
        return
    from sitrepd.cli.sweep_watch import follow

    raise typer.Exit(follow(cli, answer.data["id"]))


def _asked(cli: Cli, given: dict[str, Any]) -> dict[str, Any]:
    """The request, from the file with what flags say beside it."""
    from sitrepd.cli import sweep_file as f

    told = f.read_file(given["file"]) if given["file"] else {}
    template = {"launch": given["launch"], "command": given["command"]}
    more = {
        "name": given["name"],
        "template": {key: value for key, value in template.items() if value is not None},
        "parameters": f.parameters(given["vary"] or ()),
        "derived": f.pairs("--derive", given["derive"] or (), text=True),
        "constraints": given["where"],
        "baseline": f.pairs("--baseline", given["baseline"] or ()),
        "search": given["search"],
        "metric": given["metric"],
        "early_stop": given["early_stop"] or None,
        "force": given["force"] or None,
        "budget": {key: given[key] for key in ("trials", "hours") if given[key]},
    }
    told |= {key: value for key, value in more.items() if value not in (None, {}, [])}
    measured = {"tool": given["tool"], "preset": given["preset"], "repeat": given["repeat"], "flags": given["bench"]}
    measured = {key: value for key, value in measured.items() if value is not None}
    if measured or "benchmarks" not in told:
        first = (told.get("benchmarks") or [{}])[0]
        told["benchmarks"] = [first | measured, *(told.get("benchmarks") or [])[1:]]
    f.finite(told)
    around = surroundings(cli, None, []) if cli.is_local else None
    return f.with_caller(told, around)


def _say_plan(told: dict[str, Any]) -> None:
    lines = [
        {"#": str(at), "trial": trial["name"], "settings": _settings(trial["settings"]), "command": trial["command"]}
        for at, trial in enumerate(told["trials"], 1)
    ]
    columns = (("#", "#"), ("TRIAL", "trial"), ("COMMAND", "command"))
    output.table(lines, columns)
    for trial in told["trials"]:
        for text in trial.get("warnings") or ():
            output.warn(f"Warning: {trial['name']}: {text}")
    if told["choices"] > len(told["trials"]):
        output.say(f"The first {len(told['trials'])} of {told['choices']} combinations are shown.")
    chosen = f", chosen by {told['search']}," if told["search"] != "grid" else ""
    output.say(
        f"{_many(told['count'], 'trial')}{chosen} with {_many(told['runs'], 'run')} in all; {told['metric']} decides."
    )
    if told.get("start_s") is not None:
        whole = output.duration(told["start_s"] * told["launches"])
        output.say(
            f"Starts alone: about {whole} ({output.duration(told['start_s'])} each, as the last {told['starts_seen']} "
            "of this model took)."
        )
    else:
        output.say("How long it takes is not known before the first trial: no start of this model was seen here.")


def _parameters(told: Any) -> Any:
    """A value that is null is a flag that is left out."""
    if not isinstance(told, dict):
        return told
    return ", ".join(f"{name}={_values(one)}" for name, one in told.items())


def _values(told: Any) -> str:
    if told is None:
        return "absent"
    return ", ".join(_values(one) for one in told) if isinstance(told, list) else output.cell(told)


def _settings(told: dict[str, Any]) -> str:
    return ", ".join(f"{name} absent" if value is None else f"{name}={value}" for name, value in told.items())


add_list(app, TABLE)


@verb(app, "show")
def show(cli: Cli, sweep: Sweep) -> None:
    """Its trials with what they measured, what is next, and how long still."""
    from sitrepd.cli.sweep_watch import say_status

    answer = cli.client.get(f"/sweeps/{sweep}/status")
    if not answer.data["count"] and not answer.data.get("metric"):
        cli.show(cli.client.get(f"/sweeps/{sweep}"), output.fact)
        return
    cli.show(answer, say_status)


@verb(app, "watch")
def watch(cli: Cli, sweep: Sweep) -> None:
    """Show a sweep as it goes, until it is over or pauses; exit status 4 where it did not come to its end."""
    from sitrepd.cli.sweep_watch import follow

    raise typer.Exit(follow(cli, sweep))


@verb(app, "pause")
def pause(
    cli: Cli,
    sweep: Sweep,
    now: Annotated[
        bool, typer.Option("--now", help="Stop the present trial, which is done anew later; else it is finished first.")
    ] = False,
) -> None:
    """Begin no further trial until it is resumed."""
    _changed(cli, cli.client.post(f"/sweeps/{sweep}/pause", {"now": now}))


@verb(app, "resume")
def resume(cli: Cli, sweep: Sweep) -> None:
    """Go on with a sweep that is paused or was stopped; secrets are taken from this shell's environment."""
    from sitrepd.cli.again import environment

    told = {"caller_env": environment()} if cli.is_local else {}
    _changed(cli, cli.client.post(f"/sweeps/{sweep}/resume", told))


@verb(app, "stop")
def stop(cli: Cli, sweep: Sweep) -> None:
    """End a sweep: the server of its present trial is stopped, what was measured stays."""
    _changed(cli, cli.client.post(f"/sweeps/{sweep}/stop", {}))


@verb(app, "reorder")
def reorder(
    cli: Cli,
    sweep: Sweep,
    trials: Annotated[list[str], typer.Argument(metavar="TRIAL…", help="Planned trials by number: these first.")],
) -> None:
    """Put planned trials first, in the order in which they are given."""
    _changed(cli, cli.client.post(f"/sweeps/{sweep}/reorder", {"trials": trials}))


@verb(app, "extend")
def extend(
    cli: Cli,
    sweep: Sweep,
    vary: Vary = None,
    trials: Annotated[int | None, typer.Option("--trials", min=1, help="Further trials of a search.")] = None,
) -> None:
    """Add values of parameters with the combinations that come with them, or trials to a search."""
    from sitrepd.cli import sweep_file as f

    found = f.parameters(vary or ())
    told: dict[str, Any] = {"parameters": {name: _spelled(one) for name, one in found.items()}}
    if trials is not None:
        told["trials"] = trials
    answer = cli.client.post(f"/sweeps/{sweep}/extend", told)
    cli.show(answer, lambda told: output.say(_extended(len(told["added"]), told["sweep"]["left"])))


def _extended(added: int, left: int) -> str:
    return f"{_many(added, 'trial')} added; {left} {'is' if left == 1 else 'are'} left."


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _spelled(told: Any) -> list[Any]:
    """The values of a range one by one."""
    if isinstance(told, list):
        return told
    whole = isinstance(told["from"], int) and isinstance(told["to"], int)
    step = told.get("step", 1 if whole else 0)
    count = int((told["to"] - told["from"]) / step) + 1 if step else 0
    if not 0 < count <= 1000:
        raise typer.BadParameter(f"from {told['from']} to {told['to']} in steps of {step} is no range.")
    return [round(told["from"] + step * at, 10) for at in range(count)]


@verb(app, "retry")
def retry(
    cli: Cli, trial: Annotated[str, typer.Argument(metavar="TRIAL", help="Its number, as `sitrep sweep show` has it.")]
) -> None:
    """Do a trial anew that failed or was skipped."""
    _changed(cli, cli.client.post(f"/trials/{trial}/retry", {}))


def _changed(cli: Cli, answer: Any) -> None:
    def say(told: dict[str, Any]) -> None:
        why = f" ({told['why']})" if told.get("why") else ""
        output.say(f"{told['id']} is {told['state']}{why}; {told['over']} of {told['count']} trials are over.")

    cli.show(answer, say)


add_add(app, TABLE)
add_edit(app, TABLE)
