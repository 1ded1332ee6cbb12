"""Logs as people report them: quoted, indented, numbered, clipped, with their line breaks lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.launches.diagnosis.corpus import Entry, entries
from tests.launches.reading import LOGS

from sitrepd.launches.diagnosis import diagnose

FORMS: dict[str, Callable[[list[str]], list[str]]] = {
    "quoted": lambda lines: [f"> {line}".rstrip() for line in lines],
    "indented": lambda lines: [f"    {line}" for line in lines],
    "within an issue": lambda lines: [
        "It fails at start:",
        "",
        "Logs:",
        *(f"\t{line}" for line in lines),
        "",
        "Thanks!",
    ],
    "numbered": lambda lines: [f"{number}: {line}" for number, line in enumerate(lines, 90)],
    "coloured": lambda lines: [f"\x1b[1;31m{line}\x1b[0m" for line in lines],
}
SOME = [one for place, one in enumerate(entries()) if one.category and place % 4 == 0]
ACTOR = "(EngineCore_DP0 pid=271) "
FRAMES = [
    "Traceback (most recent call last):",
    '  File "/x/sglang/srt/managers/scheduler.py", line 3410, in run_scheduler_process',
    "    scheduler = Scheduler(",
    '  File "/x/sglang/srt/model_executor/model_runner.py", line 412, in init_torch_distributed',
    "    return func(*args, **kwargs)",
]
ERRORS = {
    "ImportError: libcudart.so.13: cannot open shared object file: No such file or directory": "missing_dependency",
    "torch.AcceleratorError: CUDA error: invalid device ordinal": "gpu_count",
    "torch.AcceleratorError: CUDA error: an illegal memory access was encountered": "cuda_illegal_memory",
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.": "memory_kv_pool",
    "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: Root=1)": "model_not_found",
    "AttributeError: 'NoneType' object has no attribute 'shape'": "scheduler_exception",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_reports_change_nothing(form: str) -> None:
    told = {entry.name: diagnose(FORMS[form](entry.lines)).category for entry in SOME}
    wrong = {
        entry.name: told[entry.name] for entry in SOME if told[entry.name] not in (entry.category, "unknown", None)
    }
    assert wrong == {}
    assert sum(told[entry.name] == entry.category for entry in SOME) >= 0.97 * len(SOME)


@pytest.mark.parametrize("glue", ["", " ", "\\n"])
@pytest.mark.parametrize("prefix", ["", ACTOR])
@pytest.mark.parametrize("error", ERRORS)
def test_lines_that_have_lost_their_breaks_are_parted(error: str, prefix: str, glue: str) -> None:
    told = diagnose([glue.join(f"{prefix}{line}" for line in [*FRAMES, error])])
    assert (told.state, told.category) == ("failed", ERRORS[error])
    assert told.evidence[0].line == 1


@pytest.mark.parametrize("keep", [1, 2, 3])
@pytest.mark.parametrize("error", ERRORS)
def test_traceback_may_begin_in_its_middle(error: str, keep: int) -> None:
    assert diagnose([*FRAMES[-keep - 1 :], error]).category == ERRORS[error]


def test_evidence_of_a_quoted_recording_keeps_its_lines() -> None:
    plain = (LOGS / "h200-0.5.16-fail-memfraction.log").read_text().splitlines()
    told, same = diagnose(FORMS["quoted"](plain)), diagnose(plain)
    assert (told.category, told.summary, told.evidence) == (same.category, same.summary, same.evidence)


@pytest.mark.parametrize("entry", [one for one in entries() if not one.category], ids=lambda entry: entry.name)
def test_nothing_fails_by_being_quoted(entry: Entry) -> None:
    assert diagnose(FORMS["quoted"](entry.lines)).category is None


def test_oom_whose_traceback_is_elsewhere_lends_its_place() -> None:
    error = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has a total capacity of 79 GiB"
    )
    alone = diagnose([error])
    assert alone.category == "memory_runtime"
    assert "does not show" in str(alone.cause)
    frames = [
        "Traceback (most recent call last):",
        '  File "/x/vllm/engine/multiprocessing/engine.py", line 218, in run_engine_loop',
        "    request_outputs = self.engine_step()",
    ]
    told = diagnose([error, *frames])
    assert told.category == "memory_runtime"
    assert "while serving" in told.summary
