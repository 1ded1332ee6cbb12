"""What this machine shows of what was told: paths that do not exist, servers that do not run.

Only of facts that are known to be of this machine; a file system that does not answer is never waited for.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sitrepd.launches.states import ALIVE
from sitrepd.sections import Report, Section

_WAIT_S = 0.3
_PATHS = 500
_looking: threading.Thread | None = None


def differences(report: Report, sections: Sequence[Section]) -> Iterator[tuple[str, Sequence[str]]]:
    """What was told and is not so here, each with its ids."""
    here = getattr(report.live.get("hardware"), "host_id", None)
    if here is None:
        return
    by_name = {section.name: section.items for section in sections}
    # What an imported session names without a host may be anywhere.
    anywhere = report.session.imported_from is not None
    yield from _paths(here, anywhere, by_name.get("artifacts", ()), by_name.get("launches", ()))
    yield from _servers(here, anywhere, report.live.get("servers"), by_name.get("now", ()))


def _is_here(item: Mapping[str, Any], here: int, anywhere: bool) -> bool:
    host = item.get("host")
    return not anywhere and not item.get("imported_from") if host is None else bool(host["id"] == f"H{here}")


# --- paths -------------------------------------------------------------------------------------------------------


def _paths(
    here: int, anywhere: bool, artifacts: Iterable[Mapping[str, Any]], over: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, Sequence[str]]]:
    """Files that are named one by one, and logs, of which many may have been tidied away, at once."""
    named = {
        item["id"]: path for item in artifacts if (path := _path(item.get("path"))) and _is_here(item, here, anywhere)
    }
    logs = {
        item["id"]: path for item in over if (path := _path(item.get("log_path"))) and _is_here(item, here, anywhere)
    }
    gone = missing(dict([*logs.items(), *named.items()][-_PATHS:]))
    for public_id in gone:
        if public_id in named:
            yield f"{public_id} names {_one(named[public_id])}, which does not exist on this host", [public_id]
    without = sorted((one for one in gone if one in logs), key=lambda one: int(one[1:]))
    if without:
        which = "log does" if len(without) == 1 else "logs do"
        yield f"{', '.join(without)}: the {which} not exist on this host any more", without


def _path(told: str | None) -> str | None:
    """Where it is, if that can be looked up."""
    return os.path.expanduser(told) if told and told[0] in "/~" and "$" not in told else None


def missing(paths: Mapping[str, str], wait_s: float = _WAIT_S) -> list[str]:
    """The names whose paths do not exist; those that cannot be looked at, or not in time, are not among them."""
    global _looking
    if not paths or (_looking is not None and _looking.is_alive()):
        return []
    found: list[str] = []
    _looking = threading.Thread(target=_look, args=(paths, found), name="paths", daemon=True)
    _looking.start()
    _looking.join(wait_s)
    return list(found)


def _look(paths: Mapping[str, str], found: list[str]) -> None:
    for name, path in paths.items():
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            found.append(name)
        except (OSError, ValueError):
            continue


# --- servers -----------------------------------------------------------------------------------------------------


def _servers(
    here: int, anywhere: bool, found: Any, now: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[str, Sequence[str]]]:
    """Launches that were told to live here, where no process of a server could be theirs."""
    if found is None:
        return
    ports = {one.port for one in found.servers if one.launch is None} | {
        port for one in found.servers for port in one.listening
    }
    unknown = any(one.launch is None and one.port is None for one in found.servers)
    for item in now:
        if item["kind"] != "launch" or item["watched"] or item["state"] not in ALIVE or not item.get("port"):
            continue
        if _is_here(item, here, anywhere) and item["port"] not in ports and not unknown:
            told = f"{item['id']} was told as {item['state']} on port {item['port']} of this host"
            yield f"{told}, but no server runs there", [item["id"]]


def _one(text: str) -> str:
    return " ".join(text.split())
