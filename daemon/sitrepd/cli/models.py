"""`sitrep model`: model cards, what a model's configuration says."""

from __future__ import annotations

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import noun

TABLE = NounTable(
    "model",
    "models",
    (
        Field("path", "Folder or hub id.", argument=True),
        Field("name", "What it is called."),
        Field("config", "NAME=VALUE of its config.json; may be repeated.", values.pairs, many=True, metavar="PAIR"),
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
