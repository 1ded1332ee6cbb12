"""The command line: a thin client of the REST API."""

from __future__ import annotations


def main() -> None:
    """Entry of both commands, `sitrep` and `sitrepd`."""
    from sitrepd.cli.root import run

    run()
