"""Where the settings file and the store are; light enough for every call of the command line."""

from __future__ import annotations

import os
import socket
import tomllib
from pathlib import Path

from platformdirs import user_config_path, user_state_path

from sitrepd.errors import SitrepError
from sitrepd.storage.filesystem import is_network_path


def config_file() -> Path:
    """The TOML file that is read: SITREP_CONFIG, else `sitrep/config.toml` in the user's configuration folder."""
    told = os.environ.get("SITREP_CONFIG")
    return Path(told).expanduser() if told else user_config_path("sitrep") / "config.toml"


def default_data_dir() -> Path:
    """The user's state folder; one folder a host where the home is a network file system."""
    folder = user_state_path("sitrep")
    return folder / socket.gethostname() if is_network_path(folder) else folder


def data_dir(told: Path | str | None = None) -> Path:
    """The store's folder, as the settings find it: told, SITREP_DATA_DIR, the settings file, the default."""
    found = told or os.environ.get("SITREP_DATA_DIR") or _configured_data_dir() or default_data_dir()
    return Path(found).expanduser().absolute()


def _configured_data_dir() -> str | None:
    path = config_file()
    try:
        found = tomllib.loads(path.read_text()).get("data_dir")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise SitrepError(f"The settings file {path} cannot be read: {error}.") from error
    if found is not None and not isinstance(found, str):
        raise SitrepError(f"Setting data_dir in {path} is no path: {found!r}.")
    return found
