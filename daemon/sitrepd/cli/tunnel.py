"""The daemon of another machine, by ssh: one connection a box, and a local socket that leads over it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shlex
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from sitrepd.cli.connection import NoTunnel, connect_unix, parse_url
from sitrepd.errors import SitrepError

_IDLE_S = 1800
_CONNECT_S = 10
_LIMIT_S = 25.0
_TERMINAL_LIMIT_S = 120.0
# A socket's address holds 107 bytes, 103 on some systems, and ssh adds 17 to that of its own while it makes it.
_MOST_FOLDER = 80
_FIND = r"""
say() { printf 'sitrep-%s=%s\n' "$1" "$2"; }
store=${SITREP_DATA_DIR:-}
config=${SITREP_CONFIG:-${XDG_CONFIG_HOME:-$HOME/.config}/sitrep/config.toml}
[ -n "$store" ] || store=$(sed -n 's/^ *data_dir *= *["'"'"']\(.*\)["'"'"'].*/\1/p' "$config" 2>/dev/null | head -n 1)
if [ -z "$store" ]; then
    store=${XDG_STATE_HOME:-$HOME/.local/state}/sitrep
    if [ ! -S "$store/sitrep.sock" ] && [ -S "$store/$(uname -n)/sitrep.sock" ]; then store=$store/$(uname -n); fi
fi
case $store in '~/'*) store=$HOME/${store#'~/'} ;; esac
say socket "$store/sitrep.sock"
[ ! -S "$store/sitrep.sock" ] || say there yes
[ ! -r "$store/daemon.json" ] || say known yes
"""


@dataclass(frozen=True)
class Box:
    """Another machine, as ssh names it, and the store there; the user's own if none is named."""

    destination: str
    port: int | None = None
    store: str | None = None

    def __str__(self) -> str:
        return f"ssh://{self.destination}{f':{self.port}' if self.port else ''}{self.store or ''}"

    @property
    def name(self) -> str:
        """What the link of this box is called; the hooks' script makes the same out of SITREP_URL."""
        return str(self).removeprefix("ssh://").replace("/", "_")

    @property
    def link(self) -> Path:
        """The folder of its sockets, by a name that scripts find."""
        return _base() / self.name

    @property
    def socket_path(self) -> Path:
        return self.link / "s"

    @property
    def by_hand(self) -> str:
        """How a person goes there."""
        return f"ssh {f'-p {self.port} ' if self.port else ''}{self.destination}"


def _base() -> Path:
    told = os.environ.get("XDG_RUNTIME_DIR")
    return (Path(told) if told else Path.home() / ".cache") / "sitrep-ssh"


def open_tunnel(box: Box, ask: bool = False) -> None:
    """Make the local socket lead to the daemon's; NoTunnel says what is in the way.

    ssh may ask for a password, or whether a key is known, only where `ask` says that a person is there.
    """
    folder = folder_of(box)
    with _alone(folder):
        if _leads(folder / "s"):
            return
        remote = _find(box, folder, ask)
        _ssh(box, folder, ["-O", "cancel", "-L", f"{folder}/s:{remote}"])
        (folder / "s").unlink(missing_ok=True)
        told = _ssh(box, folder, ["-O", "forward", "-L", f"{folder}/s:{remote}"])
        if not _leads(folder / "s"):
            raise NoTunnel(f"{box.by_hand}: no socket could be forwarded. {told.error or 'ssh does not say why.'}")


def why_silent(box: Box) -> str:
    """Why nothing came through a tunnel that is there, for the one who asked."""
    try:
        _find(box, folder_of(box), ask=False)
    except NoTunnel as error:
        return error.detail
    return (
        f"The connection to {box} ended before the answer. Try again; if it stays so, its sshd may not forward "
        "to sockets (AllowStreamLocalForwarding in its sshd_config)."
    )


# --- the folder of the sockets -----------------------------------------------------------------------------------


def folder_of(box: Box) -> Path:
    """Made where it is missing, the user's alone; its real name is short whatever the box is called."""
    base = _base()
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = base.stat()
    if about.st_uid != os.getuid() or stat.S_IMODE(about.st_mode) & 0o077:
        raise NoTunnel(f"{base} must be yours alone: `chmod 700 {base}`, or name another folder by XDG_RUNTIME_DIR.")
    folder = base / hashlib.sha256(box.name.encode()).hexdigest()[:8]
    if len(os.fsencode(folder)) > _MOST_FOLDER:
        raise NoTunnel(f"{base} is too long a path for sockets; name a shorter folder by XDG_RUNTIME_DIR.")
    folder.mkdir(mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        box.link.symlink_to(folder.name)
    return folder


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Callers at the same time open one tunnel together."""
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _leads(path: Path) -> bool:
    """Whether ssh listens there."""
    try:
        connect_unix(path).close()
    except OSError:
        return False
    return True


# --- ssh ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Told:
    status: int
    text: str
    error: str


def _find(box: Box, folder: Path, ask: bool) -> str:
    """The path of the daemon's socket there; also opens the shared connection, where there is none."""
    script = f"SITREP_DATA_DIR={shlex.quote(box.store)}\n{_FIND}" if box.store else _FIND
    told = _ssh(box, folder, ["exec sh -s"], script, ask, master=True)
    found = dict(
        line[7:].split("=", 1) for line in told.text.splitlines() if line.startswith("sitrep-") and "=" in line
    )
    if "socket" not in found:
        raise NoTunnel(_why_not(box, told))
    if "there" not in found:
        was = "has ended" if "known" in found else "has never run"
        raise NoTunnel(
            f"No daemon runs on {box.destination} (it {was} with the store {os.path.dirname(found['socket'])}). "
            f"`{box.by_hand} sitrep resume` starts one, `deploy/systemd` keeps one; another store is named as "
            f"{Box(box.destination, box.port)}/path/to/store."
        )
    return found["socket"]


def _ssh(
    box: Box, folder: Path, words: list[str], script: str = "", ask: bool = False, master: bool = False
) -> _Told:  # fmt: skip
    """One call of ssh; what it prints goes to files, since the connection that stays would hold a pipe open."""
    options = {
        "ControlPath": f"{folder}/c", "ConnectTimeout": _CONNECT_S, "ServerAliveInterval": 5, "ServerAliveCountMax": 3,
        "StreamLocalBindUnlink": "yes", "StreamLocalBindMask": "0177", "ClearAllForwardings": "no", "ForwardX11": "no",
        "ForwardAgent": "no", "RequestTTY": "no", "LogLevel": "ERROR",
    }  # fmt: skip
    if master:
        options |= {"ControlMaster": "auto", "ControlPersist": _IDLE_S}
    if not ask:
        options["BatchMode"] = "yes"
    line = ["ssh", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    line += ["-p", str(box.port)] if box.port else []
    control = words if words[0].startswith("-") else []
    line += [*control, "--", box.destination, *([] if control else words)]
    limit = _TERMINAL_LIMIT_S if ask else _LIMIT_S
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as complained:
        try:
            done = subprocess.run(
                line, input=script.encode(), stdout=printed, stderr=complained, timeout=limit, check=False
            )  # fmt: skip
        except FileNotFoundError as error:
            raise NoTunnel("There is no ssh on the PATH, which SITREP_URL=ssh:// needs; install OpenSSH's.") from error
        except subprocess.TimeoutExpired as error:
            raise NoTunnel(f"{box.by_hand} took longer than {limit:.0f} s. Does it answer by hand?") from error
        printed.seek(0)
        complained.seek(0)
        text, wrong = (file.read().decode("utf-8", "replace") for file in (printed, complained))
    return _Told(done.returncode, text, " ".join(wrong.split()))


_HINTS = (
    ("Host key verification failed", "Go there once by hand and accept its key: `{by_hand}`."),
    ("Permission denied", "Nothing can ask for a password here: load your key (`ssh-add`), or try `{by_hand} true`."),
    ("Could not resolve", "Check the name in SITREP_URL, or give it one in ~/.ssh/config."),
    ("Connection refused", "No sshd listens there; a port is named as ssh://user@box:2222."),
    ("timed out", "Is it switched on, and this machine in its network?"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "Its key has changed: make sure that it is the same machine."),
)


def _why_not(box: Box, told: _Told) -> str:
    hint = next((hint for sign, hint in _HINTS if sign in told.error), "Try by hand: `{by_hand} true`.")
    why = told.error.rstrip(".") or f"exit status {told.status}, and no word why"
    return f"ssh does not reach {box.destination}: {why}. {hint.format(by_hand=box.by_hand)}"


def open_in_background(box: Box) -> None:
    """For a hook, which must not wait: another process goes on after it."""
    subprocess.Popen(
        [sys.executable, "-m", "sitrepd.cli.tunnel", str(box)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def wait_for(box: Box, until: float) -> bool:
    """Whether the tunnel is there by that time of the monotonic clock."""
    while not _leads(box.socket_path):
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True


def main(url: str) -> None:
    from sitrepd.cli import kept_hooks

    box = parse_url(url).box
    if box is not None:
        with suppress(SitrepError, OSError):
            open_tunnel(box)
            kept_hooks.send(box)


if __name__ == "__main__":
    main(sys.argv[1])
