"""`sitrep host`: machines with their GPUs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sitrepd.cli import output, values
from sitrepd.cli.nouns import Field, NounTable, add_verbs
from sitrepd.cli.verbs import Cli, noun


def _gpus(told: Mapping[str, Any]) -> list[str]:
    names = Counter(gpu["name"] for gpu in told.get("gpus") or ())
    return [f"{count} × {name}" for name, count in names.items()]


def say_seen(cli: Cli, told: Mapping[str, Any]) -> None:
    """What it was last seen to consist of; nothing of a host that was only told of."""
    from sitrepd.cli.client import Refused

    try:
        seen = cli.client.get(f"/hosts/{told['id']}/snapshot").data
    except Refused:
        return
    print(f"as seen {output.local_time(seen['at'])}:")
    for one in seen["words"]:
        output.say(f"  {one['what']}: {one['text']}")


TABLE = NounTable(
    "host",
    "hosts",
    (
        Field("name", "What it is called.", argument=True),
        Field("os", "The operating system."),
        Field("cpu", "The processor."),
        Field("cpu_count", "How many logical processors.", values.number, metavar="N"),
        Field("memory_bytes", "Bytes of memory.", values.number, metavar="N"),
        Field("gpus", "Name of a GPU, in their order; `8xNAME` stands for eight.", values.gpus, many=True,
              option="gpu", metavar="NAME"),
        Field("interconnect", "How the GPUs are joined: PCIe, NVLink, …"),
        Field("topology", "Matrix of the paths between GPUs, as JSON.", values.strict_json, metavar="JSON"),
        Field("numa", "NUMA nodes, as JSON.", values.strict_json, metavar="JSON"),
        Field("disks", "Disks, as JSON.", values.strict_json, metavar="JSON"),
        Field("note", "More of it."),
    ),
    (("ID", "id"), ("NAME", "name"), ("GPUS", _gpus), ("JOINED BY", "interconnect"), ("CPU", "cpu"),
     ("MEMORY", lambda told: output.size(told.get("memory_bytes"))), ("OS", "os"), ("NOTE", "note")),
    in_session=False,
    besides=say_seen,
)  # fmt: skip

app = noun("Hosts: machines with their GPUs.")
add_verbs(app, TABLE)
