"""The matrix beside what `nvidia-smi topo -m` printed on machines of several kinds, as their owners published it."""

from __future__ import annotations

import pytest
from tests.stubs import NvmlStub

from sitrepd.hardware.paths_between import grouped
from sitrepd.hardware.topology import interconnect_word

pytestmark = pytest.mark.gcc

ASK = "from sitrepd.hardware.nvml import Nvml\nnvml = Nvml.open(lost_after_s=0)\nsay(nvml.topology())"
# nvmlGpuTopologyLevel_t, from the driver's header.
_LEVELS = {"X": 0, "PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}

DGX_A100 = """
        GPU0    GPU1    GPU2    GPU3    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      NV12    NV12    NV12    PXB     SYS     48-63,176-191   3               N/A
GPU1    NV12     X      NV12    NV12    PXB     SYS     48-63,176-191   3               N/A
GPU2    NV12    NV12     X      NV12    SYS     PXB     16-31,144-159   1               N/A
GPU3    NV12    NV12    NV12     X      SYS     PXB     16-31,144-159   1               N/A
NIC0    PXB     PXB     SYS     SYS      X      SYS
"""
WORKSTATION = """
        GPU0    GPU1    GPU2    GPU3    GPU4    CPU Affinity    NUMA Affinity   GPU NUMA ID
GPU0     X      SYS     SYS     SYS     SYS     8-15,24-31      1               N/A
GPU1    SYS      X      PHB     NODE    NODE    0-7,16-23       0               N/A
GPU2    SYS     PHB      X      NODE    NODE    0-7,16-23       0               N/A
GPU3    SYS     NODE    NODE     X      PHB     0-7,16-23       0               N/A
GPU4    SYS     NODE    NODE    PHB      X      0-7,16-23       0               N/A
"""
# Two sockets, yet SYS between all: each GPU hangs on a root of its own.
PCIE_SERVER = """
\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity\tNUMA Affinity
GPU0\t X \tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0
GPU1\tSYS\t X \tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0
GPU2\tSYS\tSYS\t X \tSYS\tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0
GPU3\tSYS\tSYS\tSYS\t X \tSYS\tSYS\tSYS\tSYS\t0-55,112-167\t0
GPU4\tSYS\tSYS\tSYS\tSYS\t X \tSYS\tSYS\tSYS\t56-111,168-223\t1
GPU5\tSYS\tSYS\tSYS\tSYS\tSYS\t X \tSYS\tSYS\t56-111,168-223\t1
GPU6\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t X \tSYS\t56-111,168-223\t1
GPU7\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\tSYS\t X \t56-111,168-223\t1
"""
# Six links a GPU, single and double ones, and none to three of the other socket's.
DGX1_V100 = """
        GPU0    GPU1    GPU2    GPU3    GPU4    GPU5    GPU6    GPU7
GPU0     X      NV1     NV1     NV2     NV2     SYS     SYS     SYS
GPU1    NV1      X      NV2     NV1     SYS     NV2     SYS     SYS
GPU2    NV1     NV2      X      NV2     SYS     SYS     NV1     SYS
GPU3    NV2     NV1     NV2      X      SYS     SYS     SYS     NV1
GPU4    NV2     SYS     SYS     SYS      X      NV1     NV1     NV2
GPU5    SYS     NV2     SYS     SYS     NV1      X      NV2     NV1
GPU6    SYS     SYS     NV1     SYS     NV1     NV2      X      NV2
GPU7    SYS     SYS     SYS     NV1     NV2     NV1     NV2      X
"""


def printed(text: str) -> list[list[str]]:
    """The rows and columns of GPUs alone."""
    head, *rows = text.strip("\n").split("\n")
    count = sum(word.startswith("GPU") and word[3:].isdigit() for word in head.split())
    return [row.split()[1 : count + 1] for row in rows if row.startswith("GPU")]


def play(stub: NvmlStub, matrix: list[list[str]], switch: str = "") -> None:
    """Make the driver tell what such a machine's tells; `switch` is the far end of links that go over one."""
    told: dict[str, str] = {}
    for number, row in enumerate(matrix):
        told[f"paths__{number}"] = ",".join(str(_LEVELS.get(word, 50)) for word in row)
        links = [(far, int(word[2:])) for far, word in enumerate(row) if word.startswith("NV")]
        if links and switch:
            told[f"nvlinks__{number}"] = ",".join([switch] * links[0][1])
        elif links:
            told[f"nvlinks__{number}"] = ",".join(str(far) for far, count in links for _ in range(count))
    stub.set(gpus=len(matrix), **told)


@pytest.mark.parametrize(
    ("text", "switch", "joined"),
    [
        (DGX_A100, "s", "NVLink (NV12)"),
        (DGX_A100, "h", "NVLink (NV12)"),
        (WORKSTATION, "", "PCIe"),
        (PCIE_SERVER, "", "PCIe"),
        (DGX1_V100, "", "NVLink between some GPUs, PCIe between the others"),
    ],
    ids=["switches", "switches hidden from a virtual machine", "roots of two sockets", "pcie alone", "mesh of links"],
)
def test_it_is_what_nvidia_smi_prints(nvml_stub: NvmlStub, text: str, switch: str, joined: str) -> None:
    matrix = printed(text)
    play(nvml_stub, matrix, switch)
    told = nvml_stub.run(ASK)
    assert told == matrix
    assert interconnect_word(told) == joined


def test_in_one_line() -> None:
    assert grouped(printed(DGX_A100)) == "NV12 between all"
    assert grouped(printed(PCIE_SERVER)) == "SYS between all"
    assert grouped(printed(WORKSTATION)) == "PHB within 1-2, 3-4; NODE within 1-4; else SYS"
    assert str(grouped(printed(DGX1_V100))).startswith("GPU 0: X NV1 NV1 NV2 NV2 SYS SYS SYS; GPU 1: NV1 X")
