"""`sitrep model`: model cards, what a model's configuration says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import typer

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import Cli, noun, verb

TABLE = NounTable(
    "model",
    "models",
    (
        Field("path", "Folder or hub id.", argument=True),
        Field("name", "What it is called."),
        Field("config", "NAME=VALUE of its config.json; may be repeated.", values.pairs, many=True, metavar="PAIR"),
        Field("details", "NAME=VALUE of what else its card says; may be repeated.", values.pairs, many=True,
              metavar="PAIR"),
        Field("weight_bytes", "Bytes of its weights.", values.number, metavar="N"),
        Field("parameters", "How many parameters.", values.number, metavar="N"),
        Field("active_parameters", "How many of them one token uses.", values.number, metavar="N"),
        Field("quantization", "INT4, FP8, …"),
        Field("kv_bytes_per_token", "Bytes of KV cache that one token takes.", values.number, metavar="N"),
        Field("kv_tokens", "Tokens that the KV cache holds.", values.number, metavar="N"),
        Field("target", "The model that this one drafts for.", metavar="M"),
        Field("note", "More of it."),
    ),
    (("ID", "id"), ("NAME", "name"), ("PATH", "path"), ("QUANTIZATION", "quantization"),
     ("WEIGHTS", lambda told: output.size(told.get("weight_bytes"))), ("PARAMETERS", "parameters"),
     ("DRAFTS FOR", "target"), ("NOTE", "note")),
)  # fmt: skip

app = noun("Model cards: what a model's configuration says.")
add_verbs(app, TABLE)

KvType = Literal["bf16", "fp16", "fp8", "fp4", "fp32"]


@verb(app, "card")
def card(
    cli: Cli,
    model: Annotated[str, typer.Argument(metavar="DIR|M", help="The model's folder, or the id of its card.")],
    name: Annotated[str | None, typer.Option("--name", help="What it is called; else as the folder is.")] = None,
    launch: Annotated[
        str | None, typer.Option("--launch", metavar="L", help="Take what is left out from it, and compare.")
    ] = None,
    tp: Annotated[int | None, typer.Option("--tp", min=1, help="Tensor-parallel size.")] = None,
    fraction: Annotated[float | None, typer.Option("--mem-fraction", min=0.01, max=1, help="As SGLang's.")] = None,
    free: Annotated[
        float | None, typer.Option("--free", metavar="GIB", min=0.01, help="Free on one GPU before loading, in GiB.")
    ] = None,
    kv_type: Annotated[KvType | None, typer.Option("--kv-type", help="What the KV cache is kept in.")] = None,
    draft: Annotated[str | None, typer.Option("--draft", metavar="DIR|M", help="The draft beside it.")] = None,
) -> None:
    """Make the card of a model from its config.json and the headers of its weights, or show it.

    With --launch or --free it says also how many tokens of KV cache fit on a GPU by SGLang's rule. With --json, one
    answer: the card, or what fits.
    """
    made = _card(cli, model, name)
    if launch is None and free is None:
        cli.show(made, _say)
        return
    asked = {"launch": launch, "tp": tp, "fraction": fraction, "kv_type": kv_type,
             "free_bytes": None if free is None else round(free * (1 << 30)),
             "draft": _card(cli, draft).data["id"] if draft else None}  # fmt: skip
    found = cli.client.get(f"/models/{made.data['id']}/fit", **asked)
    if not cli.json:
        _say(made.data)
    cli.show(found, _say_fit)


def _card(cli: Cli, told: str, name: str | None = None) -> Any:
    if re.fullmatch(r"[Mm][0-9]+", told) and not os.path.isdir(told):
        return cli.client.get(f"/models/{told.upper()}")
    return cli.client.post("/models/card", {"path": os.path.abspath(told), "name": name})


def _say(told: Mapping[str, Any]) -> None:
    for line in lines_of(told):
        output.say(line)


def lines_of(told: Mapping[str, Any]) -> Iterator[str]:
    """The card for people, one thing a line."""
    more = told.get("details") or {}
    kind = more.get("architecture") or more.get("model_type") or "model"
    yield f"{told['id']} {told.get('name') or told.get('path')}: {kind}"
    if more.get("layers"):
        yield f"  layers {more['layers']}, hidden size {more.get('hidden_size')}, vocabulary {more.get('vocab_size')}"
    if told.get("parameters"):
        active = told.get("active_parameters")
        some = f", of which one token uses {active}" if active and active != told["parameters"] else ""
        yield f"  parameters {told['parameters']}{some}"
    mixed = more.get("experts")
    if mixed:
        shared = f", {mixed['shared']} shared" if mixed.get("shared") else ""
        yield f"  experts {mixed['count']}, {mixed['used']} for a token{shared}, in {mixed['layers']} layers"
    weights = more.get("weights")
    if weights:
        by_type = ", ".join(f"{kind} {output.size(size)}" for kind, size in weights["by_type"].items())
        size = weights["bytes"]
        yield f"  weights {output.size(size)} ({size} bytes) in {weights['files']} files: {by_type}"
    if told.get("quantization"):
        yield f"  quantization {told['quantization']}"
    yield from _kv(more)
    draft = more.get("draft")
    if draft:
        yield (
            f"  {draft['kind']} draft: fc {draft['fc'][0]} x {draft['fc'][1]}, vocabulary "
            f"{draft.get('draft_vocab_size')} of {draft.get('vocab_size')}, for a target of hidden size "
            f"{draft.get('target_hidden_size')}"
        )
    for note in more.get("notes") or ():
        yield f"  note: {note}"


def _kv(more: Mapping[str, Any]) -> Iterator[str]:
    kept = more.get("kv")
    if not kept:
        return
    heads = f" of {more['kv_heads']} heads" if more.get("kv_heads") else ""
    each = ", ".join(f"{kind} {size}" for kind, size in kept["bytes_per_token"].items())
    yield f"  {more.get('attention')}{heads}; KV cache, bytes of a token: {each}"
    windowed = more.get("sliding")
    if windowed:
        yield (
            f"  {windowed['layers']} layers keep the last {windowed['window']} tokens alone; beyond these a token "
            f"takes {kept.get('beyond_window', 0)} bytes (bf16)"
        )


def _say_fit(told: Mapping[str, Any]) -> None:
    draft = f" - draft {output.size(told['draft_weight_bytes'])}" if told["draft_weight_bytes"] else ""
    output.say(
        f"  one GPU of {told['tp']}: {output.size(told['free_bytes'])} free x {told['fraction']} - weights "
        f"{output.size(told['weight_bytes'])}{draft} = {output.size(max(0, told['room_bytes']))} for the KV cache"
    )
    output.say(f"  {told['tokens']} tokens fit, at {told['token_bytes']:.0f} bytes each ({told['kv_type']})")
    if told.get("reported"):
        apart = (told["tokens"] / told["reported"] - 1) * 100
        output.say(f"  the engine reported {told['reported']}; the card says {apart:+.1f} %")
    for one in told.get("why") or ():
        output.say(f"    {one['what']}: {_amount(one, 'supposed')} supposed, {_amount(one, 'reported')} reported, "
                   f"{one['tokens']:+d} tokens")  # fmt: skip
    for note in told.get("notes") or ():
        output.say(f"  note: {note}")


def _amount(one: Mapping[str, Any], name: str) -> str:
    value = round(one[name])
    return output.size(value) if value >= 0 else f"-{output.size(-value)}"
