from __future__ import annotations

from collections.abc import Mapping, Sequence

Matrix = tuple[tuple[str, ...], ...]

SELF = "X"
UNKNOWN = "?"
SWITCH = -1

# nvmlGpuTopologyLevel_t in the words of `nvidia-smi topo -m`.
_PATHS = {0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}


def path_word(level: int | None) -> str:
    return UNKNOWN if level is None else _PATHS.get(level, UNKNOWN)


def link_count(a: int, b: int, links: Mapping[int, Sequence[int]]) -> int:
    """NVLinks between two GPUs: direct ones, else those over switches, where the narrower side counts."""
    direct = list(links.get(a, ())).count(b)
    if direct:
        return direct
    return min(list(links.get(a, ())).count(SWITCH), list(links.get(b, ())).count(SWITCH))


def topology_matrix(
    gpus: Sequence[int], levels: Mapping[tuple[int, int], int | None], links: Mapping[int, Sequence[int]]
) -> Matrix:
    """`links` lists for each GPU the far end of each active NVLink: a GPU of `gpus`, or SWITCH."""

    def word(a: int, b: int) -> str:
        if a == b:
            return SELF
        count = link_count(a, b, links)
        return f"NV{count}" if count else path_word(levels.get((min(a, b), max(a, b))))

    return tuple(tuple(word(a, b) for b in gpus) for a in gpus)


def interconnect_word(matrix: Matrix) -> str | None:
    """How the GPUs are joined in one phrase; None for a lone GPU or where no pair is known."""
    words = [word for row in matrix for word in row if word not in (SELF, UNKNOWN)]
    if not words:
        return None
    links = [word for word in words if word.startswith("NV")]
    if not links:
        return "PCIe"
    if len(links) < len(words):
        return "NVLink between some GPUs, PCIe between the others"
    return f"NVLink ({links[0]})" if len(set(links)) == 1 else "NVLink"
