"""The command line: a thin client of the REST API."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry of both commands, `sitrep` and `sitrepd`."""
    if sys.argv[1:2] == ["serve"]:
        from sitrepd.cli.serving import plainly

        status = plainly(sys.argv[2:])
        if status is not None:
            sys.exit(status)
    from sitrepd.cli.root import run

    run()
