"""Run by the interpreter of a launch, any Python from 3.8 on, with nothing but the standard library."""

from __future__ import annotations

import os
import sys

# A json.py in the working directory or on PYTHONPATH must not be imported in place of the library's.
_SEARCH = sys.path[1:] if sys.path[:1] == [""] else list(sys.path)
_ADDED = os.environ.get("PYTHONPATH", "").split(os.pathsep)
if __name__ == "__main__":
    sys.path[:] = [entry for entry in _SEARCH if entry not in _ADDED]

import json  # noqa: E402
import re  # noqa: E402
from importlib import metadata, util  # noqa: E402
from typing import Any  # noqa: E402

MARK = "sitrep-stack:"


def distributions(names: list[str], prefixes: list[str]) -> tuple[dict[str, str], list[str], list[dict[str, str]]]:
    """(versions, folders of editable installs, version control of direct installs); the first on the path counts."""
    versions: dict[str, str] = {}
    editable: list[str] = []
    controlled: list[dict[str, str]] = []
    for found in metadata.distributions():
        try:
            name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
            version = found.version
        except Exception:  # a broken installation hides one package, not all
            continue
        wanted = name in names or name.startswith(tuple(prefixes))
        if not wanted or name in versions or not version:
            continue
        versions[name] = version
        direct = direct_url(found)
        if direct.get("dir_info", {}).get("editable") and direct.get("url", "").startswith("file://"):
            editable.append(direct["url"][len("file://") :])
        elif direct.get("vcs_info", {}).get("commit_id"):
            controlled.append({"url": direct.get("url", ""), "commit": direct["vcs_info"]["commit_id"]})
    return versions, editable, controlled


def direct_url(found: metadata.Distribution) -> dict[str, Any]:
    try:
        told = json.loads(found.read_text("direct_url.json") or "{}")
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def folder_of(module: str) -> str | None:
    """Where a top-level module would be imported from, without importing it."""
    try:
        spec = util.find_spec(module)
    except Exception:
        return None
    places = list(spec.submodule_search_locations or []) if spec else []
    return os.path.abspath(places[0]) if places else None


def assigned(folder: str, files: list[str], name: str) -> str | None:
    """The text that a version file assigns to a name, read as text."""
    for file in files:
        try:
            with open(os.path.join(folder, file), encoding="utf-8", errors="replace") as lines:
                text = lines.read(100000)
        except OSError:
            continue
        match = re.search(r"^(?:\w+\s*=\s*)*" + name + r"\b[^'\"\n#]*['\"]([^'\"\n]+)['\"]", text, re.MULTILINE)
        if match:
            return match.group(1)
    return None


def main() -> None:
    asked = json.loads(sys.argv[1])
    sys.path[:] = ([asked["first_path"]] if asked["first_path"] else []) + _SEARCH
    versions, editable, controlled = distributions(asked["names"], asked["prefixes"])
    folders = {module: folder for module in asked["modules"] if (folder := folder_of(module))}
    torch = folders.get("torch", "")
    answer = {
        "python": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "packages": versions,
        "editable": editable,
        "controlled": controlled,
        "folders": folders,
        "versions": {
            module: assigned(folder, ["version.py", "_version.py", "__init__.py"], "__version__")
            for module, folder in folders.items()
        },
        "cuda": assigned(torch, ["version.py"], "cuda") if torch else None,
        "hip": assigned(torch, ["version.py"], "hip") if torch else None,
    }
    sys.stdout.write("\n" + MARK + json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
