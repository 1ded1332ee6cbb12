"""From a request for a launch to what the checks look at."""

from __future__ import annotations

from collections.abc import Sequence

from sitrepd.claims.gpus import wanted_gpus
from sitrepd.hardware.live import LiveHardware
from sitrepd.launches.check.model import Subject
from sitrepd.launches.engines import sglang
from sitrepd.launches.engines._flags import words_of
from sitrepd.launches.engines.generic import GenericEngine
from sitrepd.launches.models import LaunchCreate
from sitrepd.launches.start import Plan, plan

REPLAY = "sitrepd.demo.replay"


def subject_of(body: LaunchCreate, hardware: LiveHardware) -> Subject:
    """Raises a SitrepError for what could not be started at all; a taken port is left to its own check."""
    return described(plan(body.model_copy(update={"force": True})), hardware)


def described(planned: Plan, hardware: LiveHardware) -> Subject:
    argv = planned.shell.argv if planned.shell else tuple(planned.body.argv or ())
    in_command = {name: value for name, value in (planned.shell.environment if planned.shell else {}).items() if value}
    env = {**planned.env, **in_command}
    return Subject(
        plan=planned,
        argv=argv,
        words=tuple(server_words(argv)),
        env=env,
        told_env={**_told(planned.body), **in_command},
        is_server=planned.engine.name != GenericEngine.name and REPLAY not in argv,
        gpus=wanted_gpus(planned.facts, env, [gpu.uuid for gpu in hardware.facts]),
    )


def server_words(argv: Sequence[str]) -> list[str]:
    """The words behind the name of the server's program; none where it is no SGLang, or a replay of one."""
    words = words_of(argv)
    if REPLAY in words:
        return []
    at = sglang._program_end(words)
    return words[at:] if at else []


def _told(body: LaunchCreate) -> dict[str, str]:
    """What was set for this launch, its caller's surroundings left out."""
    env = body.env or {}
    if body.told_env is not None:
        return {name: env[name] for name in body.told_env if name in env}
    return dict(env) if body.inherit_env else {}
