"""A real sshd on 127.0.0.1 with keys, configuration and a port of its own, and a laptop that goes to it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.running import Done
from tests.helpers import PATIENCE_S, free_port, wait_until

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
SSH = shutil.which("ssh")


class Laptop:
    """A command line with a home, a name and an ssh configuration of its own."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
        self.work = folder / "work"
        self.work.mkdir()
        (folder / "bin").mkdir()
        wrapper = folder / "bin" / "ssh"
        # ssh reads the configuration of the account's home, whatever HOME says.
        wrapper.write_text(f'#!/bin/sh\necho "$@" >> {folder}/calls\nexec {SSH} -F {folder}/ssh_config "$@"\n')
        wrapper.chmod(0o755)
        self.env = {
            "PATH": f"{folder}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(folder / "home"),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "SITREP_HOSTNAME": "laptop",
        }
        (folder / "home").mkdir()
        (folder / "run").mkdir(mode=0o700)

    def url(self, store: Path | str = "") -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}{store}"

    def __call__(self, *words: str, url: str, cwd: Path | None = None, **env: str) -> Done:
        done = subprocess.run(
            [sys.executable, "-m", "sitrepd.cli", *words], env=self.env | {"SITREP_URL": url} | env,
            cwd=cwd or self.work, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    def calls(self) -> int:
        """How often ssh was started."""
        path = self.folder / "calls"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def hang_up(self) -> None:
        """End the shared connections."""
        for control in (self.folder / "run" / "sitrep-ssh").glob("*/c"):
            subprocess.run([SSH or "ssh", "-O", "exit", "-o", f"ControlPath={control}", "box"], capture_output=True)


@contextmanager
def sshd(folder: Path, **settings: str) -> Iterator[int]:
    """The port of an sshd that lets this very user in by the key `folder/key`."""
    port = free_port()
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "key.pub", folder / "authorized_keys")
    host_key = (folder / "host.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(host_key)}\n")
    (folder / "ssh_config").write_text(
        f"Host *\n  IdentityFile {folder}/key\n  IdentitiesOnly yes\n  UserKnownHostsFile {folder}/known_hosts\n"
    )
    lines = {
        "Port": port, "ListenAddress": "127.0.0.1", "HostKey": folder / "host", "PidFile": folder / "sshd.pid",
        "AuthorizedKeysFile": folder / "authorized_keys", "StrictModes": "no", "UsePAM": "no",
        "PasswordAuthentication": "no", "KbdInteractiveAuthentication": "no", "PermitRootLogin": "prohibit-password",
        "MaxStartups": "100", **settings,
    }  # fmt: skip
    (folder / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with open(folder / "sshd.log", "wb") as log:
        server = subprocess.Popen([SSHD or "sshd", "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        wait_until(lambda: b"Server listening" in (folder / "sshd.log").read_bytes() or server.poll() is not None)
        assert server.poll() is None, (folder / "sshd.log").read_text()
        yield port
    finally:
        server.terminate()
        server.wait(PATIENCE_S)
