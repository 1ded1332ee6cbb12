"""`sitrep compare`: the runs side by side, how sure their differences are, and what is best."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import typer

from sitrepd.cli import output
from sitrepd.cli.output import Column
from sitrepd.cli.verbs import Cli, verb
from sitrepd.figures import short_text

app = typer.Typer()
Format = Literal["table", "csv", "md"]
Kind = Literal["curve", "latency", "pareto", "speculative"]


@verb(app, "compare")
def compare(
    cli: Cli,
    runs: Annotated[list[str] | None, typer.Argument(metavar="B", help="Only these runs, and the baseline.")] = None,
    metric: Annotated[str | None, typer.Option("--metric", help="By which metric; else the session's own.")] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="B", help="Compare with this run, not the marked one.")
    ] = None,
    latency: Annotated[str | None, typer.Option("--latency", help="The latency of the Pareto front.")] = None,
    price: Annotated[
        float | None, typer.Option("--price", help="Of an hour of all GPUs: says what a million tokens cost.")
    ] = None,
    format_: Annotated[Format, typer.Option("--format", help="How the table is printed.")] = "table",
    chart: Annotated[
        Kind | None,
        typer.Option(
            "--chart", help="Draw a curve over a setting, percentiles of latency, the Pareto front, or the model."
        ),
    ] = None,
    setting: Annotated[str | None, typer.Option("--over", metavar="SETTING", help="What the curve goes over.")] = None,
    speculative: Annotated[
        bool, typer.Option("--speculative", help="The speed-up that accept length and costs let expect, and the best.")
    ] = False,
    accept_rate: Annotated[
        float | None, typer.Option("--accept-rate", help="For the model: the chance of a draft to be accepted, 0 to 1.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="P", help="For the model: a profile with draft and verify.")
    ] = None,
    profile_steps: Annotated[
        int | None, typer.Option("--profile-steps", help="The steps that it was made with, where its run has none.")
    ] = None,
    plain_ms: Annotated[
        float | None, typer.Option("--plain-ms", help="A plain decode step, where the baseline has no latency.")
    ] = None,
    out: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Where the chart goes: .svg or .png.")
    ] = None,
) -> None:
    """Compare the benchmarks of the session: value, difference to the baseline with its 95 % interval, and the best."""
    asked = {"metric": metric, "run": runs or None, "baseline": baseline, "latency": latency, "price": price}
    model = {"accept_rate": accept_rate, "profile": profile, "profile_steps": profile_steps, "plain_ms": plain_ms}
    path = "/sessions/current/comparison"
    if chart is not None or out is not None:
        kind = "png" if out and out.lower().endswith(".png") else "svg"
        drawn = chart or ("speculative" if speculative else "curve")
        answer = cli.client.get(f"{path}/chart", kind=drawn, setting=setting, format=kind, **asked, **model)
        output.write_file(answer.body, out)
    elif speculative:
        cli.show(cli.client.get(f"{path}/speculative", **asked, **model), _say_model)
    elif format_ != "table":
        output.write_bytes(cli.client.get(f"{path}/table", format=format_, **asked).body)
    else:
        cli.show(cli.client.get(path, **asked), _say)


def _say(told: dict[str, Any]) -> None:
    columns: tuple[Column, ...] = (
        ("RUNS", "ids"), ("CONFIGURATION", "label"), (str(told["metric"]).upper(), _value),
        ("DIFFERENCE", "difference"), ("95 % INTERVAL", _interval), ("", "words"), ("VERDICT", _verdict),
        ("LAUNCHES", "launches"),
        (str(told.get("latency") or "LATENCY").upper(), lambda row: _short(row.get("latency"))),
        ("PARETO", lambda row: row.get("pareto") or None),
        ("COST OF 1 M TOKENS", lambda row: _short(row.get("cost_per_million"))),
        ("J/TOKEN", lambda row: _short(row.get("joules_per_token"))),
        ("WHY NOT COMPARED", "why"), ("MARKED", lambda row: row["verdict"].get("marks")), ("NOTES", "notes"),
    )  # fmt: skip
    output.table(told["rows"], columns, "No benchmarks yet.")
    for note in told.get("notes") or ():
        output.say(note)
    if any("low" in row["verdict"] for row in told["rows"]):
        output.say(f"Intervals: {told['method']}.")


def _say_model(told: dict[str, Any]) -> None:
    output.table(told["rows"], (
        ("STEPS", "steps"), ("TOKENS A STEP", lambda row: f"{float(row['tokens']):.2f}"),
        ("COST", lambda row: f"{float(row['cost']):.2f}"), ("EXPECTED", lambda row: _faster(row["expected"])),
        ("MEASURED", lambda row: _faster(row["measured"]) if "measured" in row else None),
        ("OFF", lambda row: _signed(row["off_percent"]) if "off_percent" in row else None), ("RUNS", "ids"),
    ))  # fmt: skip
    first, *as_good = told["best"]
    best = f"{first} {'step' if first == 1 else 'steps'}" if first else "no speculation"
    also = f"; as good, as far as the model can tell: {', '.join(map(str, as_good))}" if as_good else ""
    output.say(f"Expected to be fastest: {best}{also}.")
    output.say(f"A draft is accepted with probability {float(told['acceptance']):.3f} ({told['acceptance_from']}).")
    base, draft = (f"{float(told[name]):.3f}" for name in ("base_cost", "draft_cost"))
    output.say(f"A step costs {base} plain ones and {draft} more for each draft ({told['costs_from']}).")
    misfit, blind = (_share(told.get(name)) for name in ("misfit_percent", "blind_percent"))
    if misfit:
        unseen = f"; {blind} where it had not seen the figure" if blind else ""
        output.say(f"It is off by {misfit} in the root mean square{unseen}.")
    for note in told.get("notes") or ():
        output.say(note)


def _share(percent: Any) -> str:
    return "" if percent is None else f"{float(percent):.1f} %"


def _faster(ratio: Any) -> str:
    return _signed((float(ratio) - 1) * 100)


def _signed(percent: Any) -> str:
    """What rounds to zero has no minus."""
    return f"{round(float(percent), 1) + 0.0:+.1f} %"


def _value(row: Mapping[str, Any]) -> str:
    return f"{short_text(row['text'])} {row['unit']}" if row.get("unit") else short_text(row["text"])


def _interval(row: Mapping[str, Any]) -> str:
    verdict = row["verdict"]
    return f"{float(verdict['low']):+.1f} to {float(verdict['high']):+.1f} %" if "low" in verdict else ""


def _verdict(row: Mapping[str, Any]) -> str:
    verdict = row["verdict"]
    said = [verdict["word"]] if verdict.get("word") else []
    if verdict.get("outliers"):
        rest = (verdict.get("without_outliers") or {}).get("word")
        then = f": {rest} without" if rest and rest != verdict.get("word") else ""
        said.append(f"{', '.join(verdict['outliers'])} is an outlier{then}")
    return ", ".join(said)


def _short(value: Any) -> str:
    return "" if value is None else f"{float(value):.4g}"
