"""Where the files are that people may change: templates and migrations."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource_dir(name: str) -> Path:
    """The folder `name` ("templates" or "migrations"): inside the installed package, or at the top of a checkout."""
    installed = _PACKAGE / f"_{name}"
    if installed.is_dir():
        return installed
    checkout = _PACKAGE.parent.parent / name
    if checkout.is_dir():
        return checkout
    raise FileNotFoundError(
        f"The folder {name!r} is neither in {_PACKAGE} nor beside {_PACKAGE.parent}: reinstall sitrepd."
    )
