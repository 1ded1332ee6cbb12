"""`sitrep bench run`: measures a server, and shows how far it is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from datetime import datetime
from itertools import dropwhile
from typing import Annotated, Any

import typer

from sitrepd.benchmarks.running.states import LIVING, ToolName
from sitrepd.cli import output, values
from sitrepd.cli.client import dump
from sitrepd.cli.following import Moment, as_lines, bar, moments
from sitrepd.cli.nouns import Cursor, Limit
from sitrepd.cli.verbs import REFUSED, Cli, verb

_POLL_S = 0.5
_LINE_EVERY_S, _PATIENCE_S = 30.0, 60.0
_DAY_S = 86400.0
_LAUNCH = re.compile(r"[Ll][1-9][0-9]*")
JobArgument = Annotated[int, typer.Argument(metavar="JOB", help="Its number, as `sitrep bench jobs` shows it.")]
Pairs = list[str] | None


def add_run_verbs(app: typer.Typer) -> None:
    """Give `bench` what runs benchmarks."""
    verb(app, "run", context_settings={"ignore_unknown_options": True})(run)
    verb(app, "jobs")(jobs)
    verb(app, "follow")(follow)
    verb(app, "stop")(stop)
    verb(app, "presets")(presets)


def run(
    cli: Cli,
    launch: Annotated[str, typer.Argument(metavar="L", help="The server to measure.")],
    flags: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[L…] [-- FLAGS]",
            help="More servers, to be measured in turns; then more flags for the tool, or a command's words.",
        ),
    ] = None,
    preset: Annotated[
        str | None, typer.Option("--preset", help="A named workload; `sitrep bench presets` lists them.")
    ] = None,
    tool: Annotated[ToolName, typer.Option("--tool", help="What measures.")] = "sglang",
    repeat: Annotated[int, typer.Option("--repeat", "-n", min=1, max=100, help="How many times.")] = 1,
    warmup: Annotated[
        bool | None, typer.Option("--warmup/--no-warmup", help="Whether to run it once unmeasured first.")
    ] = None,
    name: Annotated[str | None, typer.Option("--name", help="What its runs are called.")] = None,
    config: Annotated[
        Pairs, typer.Option("--config", metavar="PAIR", help="NAME=VALUE of what is compared; may be repeated.")
    ] = None,
    workload: Annotated[
        Pairs, typer.Option("--workload", metavar="PAIR", help="NAME=VALUE of what is asked; may be repeated.")
    ] = None,
    mapping: Annotated[
        str | None, typer.Option("--mapping", help="Which fields of the JSON that a command writes are what.")
    ] = None,
    env: Annotated[
        Pairs, typer.Option("--env", metavar="NAME=VALUE", help="Set in its environment; may be repeated.")
    ] = None,
    program: Annotated[
        str | None,
        typer.Option("--program", metavar="FILE", help="Starts the tool, where it is installed elsewhere."),
    ] = None,
    baseline: Annotated[bool, typer.Option("--baseline", help="The others are compared with it.")] = False,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="SECONDS", help="End a single run after so long.")
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the server is ready, a day at the most.")] = False,
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Begin it, and do not wait for its end.")] = False,
) -> None:
    """Measure a server: `sitrep bench run L14 --preset quick --repeat 5`, or with the tool's own flags after `--`.

    It is warmed up first. Each run is stored as it ends, with what the server itself counted meanwhile. It goes on
    without this command and without the daemon: Ctrl-C only stops showing it. Exit status 1 where it has failed.
    `sitrep bench run L14 L15 --preset quick --repeat 5` measures servers that are up together in turns, a job each:
    run 1 of L14, run 1 of L15, run 2 of L15, run 2 of L14 and so on, never two at a time.
    """
    also, words = _apart(flags or [])
    told: dict[str, Any] = {
        "launch": launch, "also": also, "tool": tool, "preset": preset, "flags": words, "repeat": repeat,
        "warmup": warmup, "name": name, "config": values.pairs(config or []), "workload": values.pairs(workload or []),
        "mapping": mapping, "program": _file(cli, program), "baseline": baseline, "timeout_s": timeout,
        "wait_s": _DAY_S if wait else None, "session": cli.session_told,
    }  # fmt: skip
    told |= _surroundings(cli, tool, env or [])
    answer = cli.client.post("/benchmarks/run", {key: value for key, value in told.items() if value is not None})
    if detach:
        cli.show(answer, _say_begun)
        return
    raise typer.Exit(_follow(cli, answer.data.get("turns") or [answer.data["id"]]))


def _apart(words: list[str]) -> tuple[list[str], list[str]]:
    """The ids of launches at the head, and what follows: no flag looks like one."""
    flags = list(dropwhile(_LAUNCH.fullmatch, words))
    return words[: len(words) - len(flags)], flags


def _say_begun(job: Moment) -> None:
    for number in job.get("turns") or [job["id"]]:
        output.say(f"Job {number}: {_how_far(job)}. `sitrep bench follow {number}`")


def _file(cli: Cli, told: str | None) -> str | None:
    """By its whole path where it is one of this machine's: the daemon has another folder."""
    return os.path.abspath(os.path.expanduser(told)) if told and cli.is_local else told


def _surroundings(cli: Cli, tool: str, env: list[str]) -> dict[str, Any]:
    """A command runs as it would in this shell; the other tools run as the server's own Python does."""
    added = values.text_pairs(env)
    from sitrepd.cli.launches import is_text

    if tool != "command" or not cli.is_local:
        path = os.environ.get("PATH", "")
        told: dict[str, Any] = {"path": path} if cli.is_local and path and is_text(path) else {}
        return {**told, "env": added} if added else told

    own = {key: value for key, value in os.environ.items() if is_text(key) and is_text(value)}
    return {"cwd": os.getcwd(), "env": own | added}


def jobs(cli: Cli, limit: Limit = 100, cursor: Cursor = None) -> None:
    """List benchmarks that are run or were, newest first."""
    columns: tuple[output.Column, ...] = (
        ("JOB", "id"), ("LAUNCH", "launch"), ("TOOL", "tool"), ("PRESET", "preset"), ("NAME", "name"),
        ("STATE", _how_far), ("RUNS", "benchmarks"), ("BEGAN", "started_at"), ("ENDED", "ended_at"), ("ERROR", "error"),
    )  # fmt: skip

    def for_people(page: Any) -> None:
        output.table(page["data"], columns, "No benchmarks were run yet.")
        if page.get("next_cursor"):
            output.warn(f"{len(page['data'])} of {page['count']}; go on with --cursor {page['next_cursor']}")

    cli.show(cli.client.get("/benchmarks/jobs", limit=limit, cursor=cursor), for_people)


def follow(cli: Cli, job: JobArgument) -> None:
    """Show how far a benchmark is until it has ended; exit status 1 where it has failed."""
    raise typer.Exit(_follow(cli, [job]))


def stop(cli: Cli, job: JobArgument) -> None:
    """End a benchmark that runs; the runs that it has measured stay."""
    cli.client.timeout_s = 120
    cli.show(cli.client.post(f"/benchmarks/jobs/{job}/stop"), _say_end)


def presets(cli: Cli) -> None:
    """List the named workloads, those of the settings file among them."""
    columns: tuple[output.Column, ...] = (
        ("NAME", "name"), ("REQUESTS", "prompts"), ("INPUT", "input_len"), ("OUTPUT", "output_len"),
        ("AT A TIME", "concurrency"), ("PER SECOND", "request_rate"), ("FLAGS", "flags"), ("ABOUT", "about"),
    )  # fmt: skip
    cli.show(cli.client.get("/benchmarks/presets"), lambda told: output.table(told["data"], columns))


# --- showing ---------------------------------------------------------------------------------------------------------


def _follow(cli: Cli, numbers: list[int]) -> int:
    """The exit status, once all of them have ended."""
    latest: dict[int, Moment] = {}
    try:
        found = moments(lambda: _look(cli, numbers, latest), lambda _: not _living(latest), _POLL_S, _PATIENCE_S)
        last = _show(cli, found)
    except KeyboardInterrupt:
        for number in numbers:
            output.warn(
                f"It goes on: `sitrep bench follow {number}` shows it again, `sitrep bench stop {number}` ends it."
            )
        raise
    for job in latest.values():
        if not cli.json:
            _say_runs(cli, job)
            _say_end(job)
        elif job is not last:
            print(dump(job).decode())
    return 0 if all(job["state"] == "done" for job in latest.values()) else REFUSED


def _look(cli: Cli, numbers: list[int], latest: dict[int, Moment]) -> Moment:
    """The job that is measured now, else one that goes on, else the last; `latest` has each as it was found last."""
    for number in numbers:
        if number not in latest or latest[number]["state"] in LIVING:
            latest[number] = cli.client.get(f"/benchmarks/jobs/{number}").data
    living = _living(latest)
    found: Moment = next((job for job in living if not _waits(job)), (living or list(latest.values())[-1:])[0])
    return found


def _living(latest: dict[int, Moment]) -> list[Moment]:
    return [job for job in latest.values() if job["state"] in LIVING]


def _waits(job: Any) -> bool:
    """Whether the others that it takes turns with are measured now."""
    return bool(job.get("turns")) and job["state"] in LIVING and not job.get("folder")


def _show(cli: Cli, found: Iterator[Moment]) -> Moment:
    if cli.json:
        return as_lines(found, lambda job: job)
    return _as_bar(found) if output.in_terminal() else _as_text(found)


def _as_text(found: Iterator[Moment]) -> Moment:
    last: Moment = {}
    shown: tuple[Any, ...] | None = None
    at = 0.0
    for last in found:
        now = (last["launch"], last["state"], last["run"])
        is_news = now != shown and not _waits(last)
        if last["state"] in LIVING and (is_news or time.monotonic() - at > _LINE_EVERY_S):
            output.say(f"{datetime.now().astimezone():%H:%M:%S}  {last['launch']}  {_how_far(last)}")
            shown, at = now, time.monotonic()
    return last


def _as_bar(found: Iterator[Moment]) -> Moment:
    last: Moment = {}
    with bar() as bars:
        task = bars.add_task("", total=None, left="")
        for last in found:
            total = last.get("total")
            bars.update(
                task, description=f"{last['launch']} {_which(last)}", left=_left(last), total=total,
                completed=last.get("done") or 0,
            )  # fmt: skip
    return last


def _how_far(job: Any) -> str:
    """running, run 2 of 5: 12 of 24 requests"""
    if job["state"] not in LIVING:
        return str(job["state"])
    left = _left(job)
    return f"{_which(job)}: {left}" if left else _which(job)


def _which(job: Any) -> str:
    if job["state"] == "queued":
        return "queued"
    if _waits(job):
        return f"waits for its turn, {job['run']} of {job['repeat']} next"
    return "warming up" if job["run"] == 0 else f"run {job['run']} of {job['repeat']}"


def _left(job: Any) -> str:
    if job.get("total") is None or job["state"] == "queued":
        return ""
    done = job.get("done")
    return f"{job['total']} requests" if done is None else f"{done} of {job['total']} requests"


def _say_runs(cli: Cli, job: dict[str, Any]) -> None:
    rows = [cli.client.get(f"/benchmarks/{one}").data for one in job.get("benchmarks") or ()]
    columns: tuple[output.Column, ...] = (
        ("ID", "id"), ("NAME", "name"), *((title, _metric(name)) for title, name in _SHOWN),
        ("MARKED", lambda told: told.get("marks")),
    )  # fmt: skip
    if rows:
        output.table(rows, columns)


_SHOWN = (
    ("OUTPUT TOK/S", "output_throughput"), ("TTFT MS", "median_ttft_ms"), ("TPOT MS", "median_tpot_ms"),
    ("ACCEPT LEN", "accept_length"), ("CACHE HITS", "cache_hit_rate"), ("COMPLETED", "completed"), ("FAILED", "failed"),
)  # fmt: skip


def _metric(name: str) -> Any:
    def find(told: Any) -> Any:
        value = (told.get("metrics") or {}).get(name, {}).get("value")
        return None if value is None else f"{float(value):.4g}" if name != "completed" else value

    return find


def _say_end(job: dict[str, Any]) -> None:
    runs = ", ".join(job.get("benchmarks") or ()) or "nothing measured"
    output.say(f"Job {job['id']} is {job['state']}: {runs}.")
    if job.get("error"):
        output.warn(f"Error: {job['error']}")
        if job.get("folder"):
            output.warn(f"What it printed: {job['folder']}/output.log")
