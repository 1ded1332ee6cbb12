"""How far a launch is: the words for it, in the order in which one is in them."""

from __future__ import annotations

from typing import Literal

State = Literal["starting", "loading", "capturing", "warming", "ready", "failed", "exited", "lost"]
LOADING = ("starting", "loading", "capturing", "warming")
ALIVE = (*LOADING, "ready")
ENDED = ("failed", "exited", "lost")
STATES = (*ALIVE, *ENDED)
