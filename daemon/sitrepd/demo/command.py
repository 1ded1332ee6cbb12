"""`sitrep demo`: a daemon, the reference session and a replayed start, from the first line to Ctrl-C."""

from __future__ import annotations

import os
import select
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import resources
from types import FrameType
from typing import Any, TextIO

from sitrepd.cli.client import Client, Refused, Unreachable
from sitrepd.cli.output import printable
from sitrepd.demo import _words, keeper
from sitrepd.demo.kept import Kept
from sitrepd.errors import SitrepError

SESSION_FILE = "reference-session.jsonl"
LAUNCH_NAME = "replay of the 3-step start"
REPLAY_S = 90
# The first seconds of a start say nothing at all.
_SKIPPED = 0.07
_LOOK_EVERY_S = 0.25
_CHECKPOINT_WITHIN_S = 45.0
_ESTIMATE_WITHIN_S = 8.0
_TRIES = 5


class _Stopped(BaseException):
    """SIGINT, SIGTERM or SIGHUP came."""

    def __init__(self, signum: int) -> None:
        self.signum = signum


def run(once: bool, as_json: bool = False) -> int:
    """Play the demo; the exit status. With `once` it ends after the checkpoint, else by Ctrl-C.

    With `as_json` standard output gets the checkpoint alone, as JSON, and people are told on standard error.
    """
    demo = Demo(once, as_json)
    try:
        with _signals(), Kept() as kept:
            try:
                demo.play(kept)
            except Unreachable:
                kept.check(wait_s=10)
                raise
            finally:
                demo.say_end()
    except _Stopped as stopped:
        return 0 if demo.shown and stopped.signum == signal.SIGINT else 128 + stopped.signum
    except BrokenPipeError:
        # Whoever read the output has seen enough; nothing may be flushed to it at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@contextmanager
def _signals() -> Iterator[None]:
    def stop(signum: int, _frame: FrameType | None) -> None:
        raise _Stopped(signum)

    before = {signum: signal.getsignal(signum) for signum in keeper.ENDING}
    for signum, handler in before.items():
        # A shell without job control starts `sitrep demo &` with SIGINT ignored; nohup means SIGHUP to be.
        if signum != signal.SIGHUP or handler != signal.SIG_IGN:
            signal.signal(signum, stop)
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@dataclass
class Demo:
    """One demo; `shown` once the first checkpoint has been printed."""

    once: bool
    as_json: bool = False
    shown: bool = False
    session: str = ""
    launch: str = ""
    _phase: str = ""
    _checkpoints: list[str] = field(default_factory=list)
    _parent: int = field(default_factory=os.getppid)

    def play(self, kept: Kept) -> None:
        client = kept.client
        self.say(_words.INTRODUCTION)
        about = client.get("/about").data
        self.tell(f"Started a daemon at {about['url']} (pid {about['pid']}), with a new store in {kept.store}.")
        self._import(client)
        self._start_replay(client, kept)
        self._await_checkpoint(client)
        self._show(client)
        if self.once:
            return
        self.say(_words.next_steps(self._link(client), str(kept.store), self.launch))
        self._follow(kept)

    def _import(self, client: Client) -> None:
        data = resources.files("sitrepd.demo").joinpath("session.jsonl").read_bytes()
        told = client.upload("/import", data, name=SESSION_FILE).data
        self.session = told["session"]
        name = client.get(f"/sessions/{self.session}").data["name"]
        self.tell(f'Imported session {self.session}, "{name}": {_words.counted(told["counts"])}.')

    def _start_replay(self, client: Client, kept: Kept) -> None:
        """Start it through the daemon, as any server; another port where somebody was quicker to take it."""
        for left in reversed(range(_TRIES)):
            body = {"name": LAUNCH_NAME, "command": replay_command(_free_port()), "cwd": str(kept.folder)}
            try:
                told = client.post(f"/sessions/{self.session}/launches", body).data
                break
            except Refused as error:
                if error.answer.status != 409 or not left:
                    raise
        self.launch = told["id"]
        left_s = REPLAY_S * (1 - _SKIPPED)
        self.tell(f'Launched {self.launch}, "{LAUNCH_NAME}": ready in about {left_s:.0f} s.')

    def _await_checkpoint(self, client: Client) -> None:
        """The idle detector writes it; wait as well until the time left can be told."""
        deadline = time.monotonic() + _CHECKPOINT_WITHIN_S
        while not self._checkpoints:
            self._look(client)
            if time.monotonic() > deadline:
                raise SitrepError(f"No checkpoint was written within {_CHECKPOINT_WITHIN_S:.0f} s.")
            time.sleep(_LOOK_EVERY_S)
        deadline = min(deadline, time.monotonic() + _ESTIMATE_WITHIN_S)
        while self._look(client).get("remaining_s") is None and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY_S)

    def _look(self, client: Client) -> dict[str, Any]:
        """Tell what has changed since the last look; the moment of the replay."""
        if os.getppid() != self._parent and "UV_RUN_RECURSION_DEPTH" in os.environ:
            # Whoever killed `uv run` meant this.
            raise _Stopped(signal.SIGHUP)
        moment: dict[str, Any] = client.get(f"/launches/{self.launch}/live").data
        phase = _words.phase(self.launch, moment)
        if phase and phase != self._phase:
            self._phase = phase
            self.tell(phase)
        for one in reversed(client.get(f"/sessions/{self.session}/checkpoints", limit=20).data["data"]):
            if one["id"] not in self._checkpoints:
                self._checkpoints.append(one["id"])
                self.tell(_words.checkpoint(one))
        return moment

    def _show(self, client: Client) -> None:
        if self.as_json:
            text = client.get(f"/sessions/{self.session}/checkpoints/latest", format="json").text
            sys.stdout.write(text.rstrip("\n") + "\n")
            sys.stdout.flush()
        else:
            text = client.post(f"/sessions/{self.session}/resume", {"to": "demo"}).text.rstrip("\n")
            self.say(_words.ABOVE, printable(text), _words.below(len(text)))
        self.shown = True

    def _link(self, client: Client) -> str:
        url: str = client.post("/links").data["url"]
        return url

    def _follow(self, kept: Kept) -> None:
        """Until a signal comes; Enter gives another link."""
        while True:
            kept.check()
            self._look(kept.client)
            if _enter_pressed(_LOOK_EVERY_S):
                self.say(f"Another link: {self._link(kept.client)}")

    def tell(self, text: str) -> None:
        """A line with the time."""
        self.say(f"{time.strftime('%H:%M:%S')}  {printable(text)}")

    def say(self, *texts: str) -> None:
        self._people.write("\n".join(texts) + "\n")
        self._people.flush()

    def say_end(self) -> None:
        with suppress(OSError):
            self.say("Ending: daemon, replay and store go now." if self.shown else "Ending.")

    @property
    def _people(self) -> TextIO:
        return sys.stderr if self.as_json else sys.stdout


def replay_command(port: int) -> str:
    """What starts the replay, with the flags of the 3-step launch that mean something to it."""
    python, skip_s = shlex.quote(sys.executable), round(REPLAY_S * _SKIPPED, 1)
    return (
        f"nohup {python} -P -m sitrepd.demo.replay --duration {REPLAY_S} --skip {skip_s:g} --cold"
        " -m sglang.launch_server --model-path /shared/kimi-k2.5-int4 --trust-remote-code --tp-size 8"
        f" --mem-fraction-static 0.88 --host 127.0.0.1 --port {port} --num-continuous-decode-steps 4"
        " --disable-custom-all-reduce --speculative-algorithm EAGLE3"
        " --speculative-draft-model-path /data/eagle3/output_100k_sglang/4 --speculative-eagle-topk 1"
        " --speculative-num-draft-tokens 4 --speculative-num-steps 3 > replay.log 2>&1 &"
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _enter_pressed(wait_s: float) -> bool:
    """Wait, and whether a line was typed meanwhile; only a terminal that is ours is read."""
    if not _reads_terminal():
        time.sleep(wait_s)
        return False
    readable, _, _ = select.select([0], [], [], wait_s)
    if not readable:
        return False
    if os.read(0, 4096):
        return True
    time.sleep(wait_s)
    return False


def _reads_terminal() -> bool:
    try:
        return os.isatty(0) and os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
