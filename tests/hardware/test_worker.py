from __future__ import annotations

import re

import pytest
from tests.stubs import NvmlStub

pytestmark = pytest.mark.gcc

WORKER = """
import asyncio
from sitrepd.hardware.nvml import Nvml
from sitrepd.hardware.worker import NvmlSilent, NvmlWorker
async def outcome(worker, timeout_s):
    started = time.monotonic()
    try:
        answer = len(await worker.ask(Nvml.gpu_samples, timeout_s))
    except NvmlSilent as silent:
        answer = str(silent)
    return [answer, time.monotonic() - started]
"""


def test_a_hanging_call_is_noticed_and_later_calls_are_refused_at_once(nvml_stub: NvmlStub):
    told = nvml_stub.run(
        WORKER + "async def main():\n"
        "    worker = NvmlWorker()\n"
        "    said = [await outcome(worker, 60)]\n"
        "    control.write_text('hang.nvmlDeviceGetPowerUsage.3=600\\n')\n"
        "    said += [await outcome(worker, 0.3), await outcome(worker, 500)]\n"
        "    worker.stop(0.1)\n"
        "    say(said)\n"
        "asyncio.run(main())",
    )
    assert told[0][0] == 8
    for said, _took_s in told[1:]:
        assert re.fullmatch(r"the NVIDIA driver has not answered nvmlDeviceGetPowerUsage for \d+ s", said)
    assert told[1][1] >= 0.3
    assert told[2][1] < 500


def test_a_driver_that_answers_again_is_asked_again(nvml_stub: NvmlStub):
    told = nvml_stub.run(
        WORKER + "async def main():\n"
        "    worker = NvmlWorker()\n"
        "    control.write_text('hang.nvmlInit=1\\n')\n"
        "    said = [await outcome(worker, 0.1)]\n"
        "    control.write_text('')\n"
        "    while isinstance((last := await outcome(worker, 60))[0], str): await asyncio.sleep(0.02)\n"
        "    worker.stop()\n"
        "    say([*said, last])\n"
        "asyncio.run(main())"
    )
    assert re.fullmatch(r"the NVIDIA driver has not answered for \d+ s", told[0][0])
    assert told[1][0] == 8


def test_what_a_call_raises_reaches_the_asker(nvml_stub: NvmlStub):
    told = nvml_stub.run(
        WORKER + "async def main():\n"
        "    worker = NvmlWorker()\n"
        "    try:\n"
        "        await worker.ask(lambda nvml: 1 // 0)\n"
        "    except ZeroDivisionError as error:\n"
        "        say([str(error), (await outcome(worker, 60))[0]])\n"
        "    worker.stop()\n"
        "asyncio.run(main())"
    )
    assert told == ["integer division or modulo by zero", 8]
