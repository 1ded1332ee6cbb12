"""Result files as they came, kept once and without secrets."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sitrepd.benchmarks import originals
from sitrepd.errors import UnknownId

SECRET = "plain-" + "value-of-mine"


def test_the_same_file_kept_by_many_at_once_is_one(tmp_path: Path) -> None:
    data = b'{"a": 1}\n' * 2000
    with ThreadPoolExecutor(8) as many:
        told = [one.result() for one in [many.submit(originals.keep, tmp_path, data, "r.jsonl") for _ in range(32)]]
    assert len({json.dumps(one, sort_keys=True) for one in told}) == 1
    (kept,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert str(kept) == told[0]["kept"]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert originals.read(tmp_path, told[0], "B1") == data


@pytest.mark.parametrize(
    "data",
    [f'{{"env": {{"HF_TOKEN": "{SECRET}"}}}}\n{{"a": 1.50}}\n', f'it prints\n{{"api_key": "{SECRET}"}}\n{{"a": 1.50}}'],
)
def test_secrets_are_found_by_their_keys_and_numbers_stay_as_they_were(data: str) -> None:
    kept = originals.without_secrets(data.encode()).decode()
    assert SECRET not in kept
    assert '{"a": 1.50}' in kept


@pytest.mark.parametrize("digest", ["/etc/hostname", "../../token", "", "0" * 63, None])
def test_nothing_is_read_that_was_not_kept(tmp_path: Path, digest: str | None) -> None:
    with pytest.raises(UnknownId, match="No file was kept of B1"):
        originals.read(tmp_path, {"sha256": digest}, "B1")
    with pytest.raises(UnknownId, match="larger than what is kept"):
        originals.read(tmp_path, {"sha256": "0" * 64, "bytes": originals.MOST_BYTES + 1}, "B1")
