"""`python -m sitrepd.demo.replay`: a process that plays an eight-rank SGLang start of Kimi-K2.5 INT4, and its port."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

from sitrepd.demo._args import ReplayArgs, parse
from sitrepd.demo._http import Server
from sitrepd.demo._start import Start
from sitrepd.demo._tape import Tape

LABEL = "Sitrep demo: replay of a start, no model is loaded"


class _Terminated(BaseException):
    """SIGTERM came; not an Exception, so that nothing on the way swallows it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Play until SIGTERM or Ctrl-C; 0 after a clean end, 1 where the port is taken."""
    args = parse(sys.argv[1:] if argv is None else argv)
    tape = Tape(args.duration_s, args.seed, skip_s=args.skip_s)
    tape.raw(f"{LABEL}\n")
    signal.signal(signal.SIGTERM, _terminate)
    server: Server | None = None
    try:
        start = Start(tape, args)
        start.play()
        server = _listen(tape, args, start)
        if server is None:
            return 1
        server.warm_up(0.995)
        tape.until(1.0)
        tape.record("The server is fired up and ready to roll!")
        threading.Event().wait()
    except _Terminated:
        _shut_down(tape, server)
    except KeyboardInterrupt:
        _shut_down(tape, server)
    return 0


def _terminate(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _Terminated


def _listen(tape: Tape, args: ReplayArgs, start: Start) -> Server | None:
    """Open the port, which the engine does only after the whole load; None where somebody else has it."""
    tape.record(f"INFO:     Started server process [{os.getpid()}]")
    tape.record("INFO:     Waiting for application startup.")
    tape.until(0.96)
    tape.record("INFO:     Application startup complete.")
    try:
        server = Server(tape, args, start)
    except OSError as error:
        tape.record(
            f"ERROR:    [Errno {error.errno}] error while attempting to bind on address "
            f"('127.0.0.1', {args.port}): {os.strerror(error.errno or 0).lower()}"
        )
        tape.record("INFO:     Waiting for application shutdown.")
        return None
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    tape.record(f"INFO:     Uvicorn running on http://127.0.0.1:{server.server_address[1]} (Press CTRL+C to quit)")
    return server


def _shut_down(tape: Tape, server: Server | None) -> None:
    tape.record("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
    if server is not None:
        server.state = "stopping"
    tape.record("Gracefully exiting... Remaining number of requests 0. Remaining requests remaining_rids=[].")
    pid = os.getpid()
    tape.record(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}")
    if server is None:
        return
    server.shutdown()
    server.server_close()
    for message in ("Shutting down", "Waiting for application shutdown.", "Application shutdown complete."):
        tape.record(f"INFO:     {message}")
    tape.record(f"INFO:     Finished server process [{pid}]")


if __name__ == "__main__":
    raise SystemExit(main())
