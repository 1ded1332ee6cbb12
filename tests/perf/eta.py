"""How far the time left that is told of a start is from the truth, on recorded starts."""

from __future__ import annotations

from collections.abc import Iterator

from tests.launches.playing import first_errors, known_errors, middle, recording
from tests.launches.reading import LOGS
from tests.perf.measure import Figure, benchmark

_FIRST = (("base-cold-jit", False), ("eagle3-s2", True), ("eagle3-s3", True))


@benchmark("eta_error_known", "eta_error_first")
def eta() -> Iterator[Figure]:
    """|estimate - remaining| / remaining at each tenth of the start; no estimate counts as 1; the median."""
    starts = {name: recording(LOGS / f"h200-0.5.16-{name}.log") for name, _ in _FIRST}
    known = known_errors(starts["eagle3-s3"], starts["eagle3-s2"])
    note = f"3 steps after 2 steps, worst tenth {max(known):.2f}"
    yield Figure("eta_error_known", middle(known), "of the time left", limit=0.2, note=note)
    first = {name: first_errors(starts[name], draft) for name, draft in _FIRST}
    note = ", ".join(f"{name} {middle(errors):.2f}" for name, errors in first.items())
    every = [error for errors in first.values() for error in errors]
    yield Figure("eta_error_first", middle(every), "of the time left", limit=0.5, note=note)
