"""What a fix says fits the engine, and names nothing that the reader would have to fill in."""

from __future__ import annotations

import re

import pytest
from tests.launches.diagnosis.corpus import Entry, entries

from sitrepd.launches.diagnosis import diagnose
from sitrepd.launches.diagnosis.known import Known
from sitrepd.launches.diagnosis.wording import in_words_of

FAILED = [one for one in entries() if one.category]
OF_VLLM = [one for one in FAILED if any("vLLM API server" in line for line in one.lines)]
_STANDS_FOR = re.compile(r"\b(?:QUANTIZATION|DRAFT|MODEL|HOST:PORT|VERSION|LENGTH|PID|IFACE|LIMIT)\b(?!=)")
_SGLANGS = re.compile(r"SGLANG_|sglang|--(?:mem-fraction-static|tp-size|context-length|disable-cuda-graph|nccl-port)\b")


@pytest.mark.parametrize("entry", FAILED, ids=lambda entry: entry.name)
def test_texts_have_no_gaps(entry: Entry) -> None:
    told = diagnose(entry.lines)
    text = " ".join(filter(None, (told.summary, told.fix)))
    assert "\0" not in text
    assert not _STANDS_FOR.search(text), text


@pytest.mark.parametrize("entry", OF_VLLM, ids=lambda entry: entry.name)
def test_no_flag_of_sglang_for_vllm(entry: Entry) -> None:
    assert not _SGLANGS.search(diagnose(entry.lines).fix or "")


def test_address_of_the_launch_stands_in_the_fix() -> None:
    known = Known(settings={"dist_init_addr": "10.1.0.4:5000"})
    assert in_words_of(known, "start with --dist-init-addr HOST:PORT; nc -vz HOST PORT") == (
        "start with --dist-init-addr 10.1.0.4:5000; nc -vz 10.1.0.4 5000"
    )


def test_where_only_advice_for_sglang_is_left_it_is_general() -> None:
    assert "issues of the engine" in in_words_of(Known(engine="vllm"), "--skip-server-warmup starts without it.")
