"""Result files as they came, without secrets, kept in the store's folder by the hash of what they were."""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

from sitrepd.errors import UnknownId
from sitrepd.redact import redact_json, redact_text

MOST_BYTES = 16 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")


def keep(folder: Path, data: bytes, name: str) -> dict[str, Any]:
    """`{"sha256", "bytes", "name", "kept"}`; what is larger than 16 MiB is known by its hash alone."""
    digest = hashlib.sha256(data).hexdigest()
    told: dict[str, Any] = {"sha256": digest, "bytes": len(data), "name": redact_text(name)}
    if len(data) > MOST_BYTES:
        return told
    path = _path(folder, digest)
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Two that keep the same file at once write one each.
        descriptor, partial = tempfile.mkstemp(prefix=f"{digest}.", dir=path.parent)
        with open(descriptor, "wb") as file:
            file.write(without_secrets(data))
        os.replace(partial, path)
    return {**told, "kept": str(path)}


def read(folder: Path, original: dict[str, Any] | None, of: str) -> bytes:
    """The file that was kept of a benchmark; raises UnknownId where there is none."""
    if not original or not _DIGEST.fullmatch(str(original.get("sha256"))):
        raise UnknownId(f"No file was kept of {of}: it was told, or taken in before files were kept.")
    try:
        return _path(folder, str(original["sha256"])).read_bytes()
    except OSError:
        pass
    larger = " It is larger than what is kept." if original.get("bytes", 0) > MOST_BYTES else ""
    raise UnknownId(f"The file of {of} is not kept; its SHA-256 is {original['sha256']}.{larger}")


def without_secrets(data: bytes) -> bytes:
    """The text as it was where it holds none; JSON is looked at by its keys as well."""
    text = redact_text(data.decode("utf-8", "replace"))
    lines = [_line(line) for line in text.split("\n")]
    if any(line is None for line in lines):
        whole = _document(text)
        return (text if whole is None else whole).encode()
    return "\n".join(line or "" for line in lines).encode()


def _line(line: str) -> str | None:
    """A line of JSONL, None for what is none."""
    return "" if not line.strip() else _document(line)


def _document(text: str) -> str | None:
    try:
        told = json.loads(text, parse_float=Decimal, parse_int=Decimal, parse_constant=Decimal)
    except (ValueError, RecursionError):
        return None
    clean = redact_json(told)
    if clean == told:
        return text
    import simplejson

    return str(simplejson.dumps(clean, use_decimal=True, ensure_ascii=False))


def _path(folder: Path, digest: str) -> Path:
    return folder / digest[:2] / digest
