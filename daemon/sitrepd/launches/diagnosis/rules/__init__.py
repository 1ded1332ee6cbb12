"""The table of rules: of each traceback the first that matches speaks, so the special stands before the general."""

from __future__ import annotations

from sitrepd.launches.diagnosis.case import Rule
from sitrepd.launches.diagnosis.rules import (
    build,
    command,
    device,
    distributed,
    division,
    files,
    folder,
    host,
    kernels,
    launcher,
    llama_cpp,
    memory,
    model,
    process,
    serving,
    shell,
)  # fmt: skip

RULES: tuple[Rule, ...] = (
    *command.ARGUMENTS,
    *launcher.RULES,
    *shell.RULES,
    *device.FAULTS,
    *distributed.PORTS,
    *distributed.SHARED_MEMORY,
    *host.RULES,
    *llama_cpp.RULES,
    *kernels.TRITON,
    *kernels.TYPES,
    *memory.RULES,
    *build.RULES,
    *kernels.RULES,
    *device.RULES,
    *distributed.RULES,
    *folder.RULES,
    *files.RULES,
    *model.RULES,
    *command.RULES,
    *division.MODEL,
    *division.MACHINE,
    *command.DEPENDENCIES,
    *serving.RULES,
    *memory.CAPTURE,
    *process.RULES,
    *process.ORPHANS,
    *distributed.SECONDARY,
    *process.SECONDARY,
)
