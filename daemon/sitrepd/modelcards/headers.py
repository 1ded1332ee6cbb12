"""Safetensors headers of a model folder: names, types and shapes of its tensors; no weight is read."""

from __future__ import annotations

import json
import math
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sitrepd.errors import InvalidFact

INDEX = "model.safetensors.index.json"
_MOST_HEADER_BYTES = 100 << 20
_MOST_JSON_BYTES = 256 << 20
BITS: Mapping[str, int] = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip


class BadModelFolder(InvalidFact):
    """A folder that no card can be made from."""

    title = "No card can be made from this folder"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor as its header describes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int

    @property
    def elements(self) -> int:
        return math.prod(self.shape)


def read_config(folder: Path) -> dict[str, Any]:
    """What config.json says."""
    if not folder.is_dir():
        raise BadModelFolder(f"{folder} is no folder on the daemon's machine.")
    found = read_json(folder / "config.json")
    if not isinstance(found, dict) or not found:
        raise BadModelFolder(f"{folder / 'config.json'} is no JSON object that says anything.")
    return found


def read_json(path: Path) -> Any:
    """A JSON file of the folder; a big or an odd one is refused."""
    try:
        about = path.stat()
        if not stat.S_ISREG(about.st_mode):
            raise BadModelFolder(f"{path} is no file.")
        if about.st_size > _MOST_JSON_BYTES:
            raise BadModelFolder(f"{path} has {about.st_size} bytes, which is no {path.name} of a model.")
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BadModelFolder(f"{path.parent} has no {path.name}.") from None
    except OSError as error:
        raise BadModelFolder(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BadModelFolder(f"{path} is no JSON: {error}.") from error


def weight_files(folder: Path) -> list[Path]:
    """Those that the index names, else those that lie there; another form of the same weights is left out."""
    if (folder / INDEX).is_file():
        index = read_json(folder / INDEX)
        named = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(named, dict) or not all(isinstance(name, str) for name in named.values()):
            raise BadModelFolder(f"{folder / INDEX} has no weight_map of file names.")
        files = [folder / name for name in sorted(set(named.values()))]
        outside = [path for path in files if path.parent != folder]
        if outside:
            raise BadModelFolder(f"{folder / INDEX} names {outside[0]}, which is outside of the folder.")
        missing = [path.name for path in files if not path.exists()]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise BadModelFolder(f"{folder} lacks {', '.join(missing[:3])}{more}, which its index names.")
        return files
    found = sorted(folder.glob("*.safetensors"))
    return [path for path in found if not path.name.startswith("consolidated")] or found


def tensors(files: Iterable[Path]) -> Iterator[Tensor]:
    """All tensors of the files, each header checked against the size of its file."""
    for path in files:
        yield from read_header(path)


def read_header(path: Path) -> list[Tensor]:
    """The tensors of one file; a header that does not fit the file's size or its own shapes is refused."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadModelFolder(f"{path} is no file.")
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            head = file.read(8)
            if head == b"version ":
                raise BadModelFolder(f"{path} is a Git LFS pointer, not the file itself.")
            length = int.from_bytes(head, "little")
            if len(head) < 8 or length > size - 8:
                raise BadModelFolder(f"{path} promises a header of {length} bytes and has {size} in all.")
            if length > _MOST_HEADER_BYTES:
                raise BadModelFolder(f"{path} promises a header of {length} bytes, more than any model's.")
            told = json.loads(file.read(length))
    except OSError as error:
        raise BadModelFolder(f"{path} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise BadModelFolder(f"{path} has a header that is no JSON.") from error
    return _checked(path, told, size - 8 - length)


def _checked(path: Path, told: Any, room: int) -> list[Tensor]:
    if not isinstance(told, dict):
        raise BadModelFolder(f"{path} has a header that is no JSON object.")
    found, covered = [], []
    for name, one in told.items():
        if name == "__metadata__":
            continue
        tensor, begin, end = _tensor(path, name, one)
        found.append(tensor)
        covered.append((begin, end))
    at = 0
    for begin, end in sorted(covered):
        if begin != at:
            raise BadModelFolder(f"{path} has a header whose tensors leave a gap or overlap at byte {min(begin, at)}.")
        at = end
    if at != room:
        raise BadModelFolder(f"{path} promises {at} bytes of tensors and has {room}.")
    return found


def _tensor(path: Path, name: str, told: Any) -> tuple[Tensor, int, int]:
    try:
        dtype, shape, (begin, end) = told["dtype"], tuple(told["shape"]), told["data_offsets"]
        whole = all(type(number) is int and number >= 0 for number in (*shape, begin, end))
        if not whole or not isinstance(dtype, str) or end < begin:
            raise TypeError(name)
    except (KeyError, TypeError, ValueError):
        raise BadModelFolder(f"{path} has a header that does not describe {name!r} as safetensors does.") from None
    bits = BITS.get(dtype)
    if bits is not None and math.prod(shape) * bits != (end - begin) * 8:
        wanted = math.prod(shape) * bits / 8
        raise BadModelFolder(f"{path} promises {end - begin} bytes for {name}, whose shape needs {wanted:.0f}.")
    return Tensor(name, dtype, shape, end - begin), begin, end
