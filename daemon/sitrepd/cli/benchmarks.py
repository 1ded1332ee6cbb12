"""`sitrep bench`: measured runs, told or imported from result files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from sitrepd.cli import output, values
from sitrepd.cli.bench_mapping import app as mapping_app
from sitrepd.cli.bench_run import add_run_verbs
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.portable import read_input
from sitrepd.cli.verbs import Cli, noun, verb


def _besides(cli: Cli, told: Mapping[str, Any]) -> None:
    from sitrepd.cli.gpus_meaning import say_gpus

    say_gpus(cli, told)


TABLE = NounTable(
    "benchmark",
    "benchmarks",
    (
        Field("name", "What it is called."),
        Field("launch", "The server that it ran against.", metavar="L"),
        Field("metrics", "NAME=VALUE[:UNIT[:higher|lower]]; may be repeated.", values.metrics, many=True,
              option="metric", metavar="METRIC"),
        Field("baseline", "Whether the others are compared with it.", flag=True),
        Field("comparable", "Whether it counts in the comparison; say in the note why not.", flag=True),
        Field("config", "NAME=VALUE of what is compared; may be repeated.", values.pairs, many=True, metavar="PAIR"),
        Field("workload", "NAME=VALUE of what was asked of the server; may be repeated.", values.pairs, many=True,
              metavar="PAIR"),
        Field("samples", "NAME=1.5,1.7,1.6; may be repeated.", values.samples, many=True, option="sample",
              metavar="SAMPLES"),
        Field("tool", "What measured it."),
        Field("note", "More of it."),
        Field("marks", "What speaks against it, such as `3 requests failed`; may be repeated.", many=True,
              option="mark", metavar="TEXT"),
        Field("artifact", "Path of the raw result.", metavar="PATH"),
    ),
    (("ID", "id"), ("NAME", "name"), ("LAUNCH", "launch"), ("BASELINE", lambda told: told.get("baseline") or None),
     ("COMPARABLE", lambda told: None if told.get("comparable", True) else False),
     ("METRICS", lambda told: output.measures(told.get("metrics"))), ("NOTE", "note"), ("AT", "at")),
    besides=_besides,
)  # fmt: skip

app = noun("Benchmarks: measured runs. `sitrep compare` puts them side by side.")
add_run_verbs(app)
app.add_typer(mapping_app, name="mapping")
add_verbs(app, TABLE)


@verb(app, "import")
def import_files(
    cli: Cli,
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Result files; `-` is standard input.")],
    launch: Annotated[str | None, typer.Option("--launch", metavar="L", help="The server they ran against.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="What the run is called.")] = None,
    baseline: Annotated[bool, typer.Option("--baseline", help="The others are compared with it.")] = False,
    mapping: Annotated[
        str | None, typer.Option("--mapping", help="Read it by this mapping of yours: JSON, JSONL or CSV.")
    ] = None,
    mixed: Annotated[bool, typer.Option("--mixed", help="Take runs of several tools or versions in one file.")] = False,
) -> None:
    """Read result files; each is uploaded, and taken whole or not at all. A run that is known is not stored again.

    Those of SGLang (bench_serving, its Rust client, bench_one_batch_server), vllm bench serve, guidellm, aiperf and
    bench_eagle3 are known, and the table that bench_serving prints; anything else is read by a --mapping. With --json,
    one answer a line and file.
    """
    for file in files:
        body, _ = read_input(file)
        file_name = "stdin" if file == "-" else cli.path_here(file)
        answer = cli.client.upload(
            "/benchmarks/import", body, name=file_name, launch=launch, label=name, baseline=baseline or None,
            mapping=mapping, mixed=mixed or None,
        )  # fmt: skip
        cli.show(answer, lambda told, file=file: _say(file, told))  # type: ignore[misc]


def _say(file: str, told: dict[str, Any]) -> None:
    for run in told["data"]:
        name = f" {run['name']}" if run.get("name") else ""
        against = f" against {run['launch']}" if run.get("launch") else ""
        output.say(f"{run['id']}{name}{against}: {output.measures(run.get('metrics'))}")
    if told["known"]:
        output.say(f"{file}: {told['known']} of {len(told['data'])} were stored already.")
    for note in told.get("notes") or ():
        output.warn(f"Note: {note}")


@verb(app, "original")
def original(
    cli: Cli,
    run: Annotated[str, typer.Argument(metavar="B", help="The run.")],
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there; else standard output.")
    ] = None,
) -> None:
    """The file that a run was read from, without its secrets; `sitrep bench show` has the SHA-256 of what it was."""
    output.write_file(cli.client.get(f"/benchmarks/{run}/original").body, out)
