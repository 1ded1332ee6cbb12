"""Ranks that do not find each other: the place where they meet is another's, is not reached, or some did not come."""

from __future__ import annotations

from sitrepd.launches.diagnosis.case import Case, Rule
from sitrepd.launches.diagnosis.rules._make import rule

_AT = r"\((?P<host>[\w.:%-]+), (?P<port>\d+)\)"


def _place(case: Case) -> str:
    """HOST:PORT, as far as the message or the settings tell it."""
    if case.word("port"):
        return f"{case.word('host')}:{case.word('port')}"
    return str(case.known.get("dist_init_addr") or "")


def _seconds(case: Case) -> str:
    return f" within {int(case.word('ms')) / 1000:g} s" if case.word("ms") else ""


def _unreached(case: Case) -> str:
    return f"A rank did not reach {_place(case)}, where the ranks meet,{_seconds(case)}".rstrip(",")


def _another(case: Case) -> str:
    place = _place(case)
    return f"What answers{f' at {place}' if place else ''} where the ranks are to meet is no rendezvous of theirs"


RULES: tuple[Rule, ...] = (
    rule(
        "nccl_error",
        r"Ping failed, invalid value returned from server",
        _another,
        "Another program listens at the address of the first rank (an HTTP server, a proxy, another job), or a proxy "
        "answers in its place.",
        "ss -ltnp on the first node shows who listens there; choose a port that nobody has: --dist-init-addr HOST:PORT "
        "on all nodes (one node: --nccl-port PORT).",
        standing="follows",
    ),
    rule(
        "nccl_error",
        rf"client socket has (?:timed out after (?P<ms>\d+)ms while trying to connect to|failed to connect to any "
        rf"network address of) {_AT}",
        _unreached,
        "The first rank (node rank 0) does not listen there: it did not start or has ended, or its name is not "
        "resolved or is behind a firewall.",
        "getent hosts {host} and nc -vz {host} {port} on this node; start the node of --node-rank 0 first, with the "
        "same --dist-init-addr on all; look for an earlier failure in its log.",
        standing="follows",
    ),
    rule(
        "nccl_error",
        r"Timed out after (?P<seconds>\d+) seconds? waiting for clients\. (?P<came>\d+)/(?P<all>\d+) clients joined",
        "Only {came} of {all} ranks came to where they meet within {seconds} s",
        "The others did not start, have ended, or do not reach the first one; their own logs say why.",
        "Look at the logs of the other ranks and nodes; start all nodes with the same --dist-init-addr and --nnodes, "
        "and each with its own --node-rank; --dist-timeout SECONDS waits longer.",
        standing="follows",
    ),
)
