"""`sitrep stack`: which software versions a launch ran on."""

from __future__ import annotations

from typing import Any

from sitrepd.cli import output, values
from sitrepd.cli.nouns import FactId, Field, NounTable, add_add, add_edit, add_list
from sitrepd.cli.verbs import Cli, noun, verb

TABLE = NounTable(
    "stack",
    "stacks",
    (
        Field("launch", "The launch that ran on it.", metavar="L"),
        Field("host", "The host that it is on.", metavar="H"),
        Field("packages", "NAME=VERSION; may be repeated.", values.text_pairs, many=True, option="package",
              metavar="PAIR"),
        Field("driver", "Version of the GPU driver."),
        Field("cuda", "Version of CUDA."),
        Field("python", "Version of Python."),
        Field("os", "The operating system."),
        Field("git", "Working trees that take part, as JSON: [{\"path\": …, \"commit\": …, \"dirty\": …}].",
              values.strict_json, metavar="JSON"),
        Field("diffs", "What those trees have beyond their commits, as JSON: [{\"path\": …, \"text\": …}].",
              values.strict_json, metavar="JSON"),
    ),
    (("ID", "id"), ("LAUNCH", "launch"), ("HOST", "host"), ("PYTHON", "python"), ("CUDA", "cuda"),
     ("DRIVER", "driver"), ("PACKAGES", "packages")),
)  # fmt: skip

app = noun("Stacks: which software versions a launch ran on.")
add_list(app, TABLE)


@verb(app, "show")
def show(cli: Cli, fact_id: FactId) -> None:
    """Everything that is known of one stack, and what its working trees have beyond their commits."""
    cli.show(cli.client.get(f"/stacks/{fact_id}"), say_stack)


def say_stack(told: dict[str, Any]) -> None:
    """The stack, then each difference as `git diff` tells it."""
    output.fact({name: value for name, value in told.items() if name != "diffs"})
    for diff in told.get("diffs") or ():
        digest = f" (sha256 {diff['sha256'][:12]})" if diff.get("sha256") else ""
        output.say(f"changes in {diff['path']}{digest}:")
        for line in (diff.get("summary") or "").splitlines():
            output.say(f"  {line}")
        if diff.get("untracked"):
            output.say(f"  not known to git: {', '.join(diff['untracked'])}")
        for line in (diff.get("text") or "").splitlines():
            output.say(f"  {line}")
        if diff.get("truncated"):
            output.say("  … the rest was not kept")


add_add(app, TABLE)
add_edit(app, TABLE)
