"""From parameters to combinations: values, what is derived from them, what constraints rule out."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice, product
from typing import Any

from sitrepd.errors import InvalidFact
from sitrepd.sweeps.asked import ABSENT as SAID_ABSENT
from sitrepd.sweeps.asked import MOST_TRIALS, RangeIn, SweepAsked
from sitrepd.sweeps.expressions import ABSENT, Expression

_MOST_COMBINATIONS = 100_000
_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
Settings = dict[str, Any]
"""By the name as told; None is a setting that is left out."""


@dataclass(frozen=True)
class Combination:
    """The settings of one trial; `own` are those that it was made from, without the derived ones."""

    own: Settings
    settings: Settings
    baseline: bool = False

    @property
    def label(self) -> str:
        if self.baseline:
            return "baseline"
        return ", ".join(f"{name} {'absent' if value is None else text_of(value)}" for name, value in self.own.items())


@dataclass(frozen=True)
class Grid:
    """What can be tried."""

    values: Mapping[str, list[Any]]
    derived: Mapping[str, Expression]
    constraints: Sequence[Expression]

    def combinations(self) -> Iterator[Combination]:
        """All that no constraint rules out, the first parameter varying slowest."""
        for chosen in product(*self.values.values()):
            found = self.combination(dict(zip(self.values, chosen, strict=True)))
            if self.allows(found):
                yield found

    def combination(self, own: Settings, *, baseline: bool = False, more: Settings | None = None) -> Combination:
        """With what is derived; `more` stands in its place."""
        known = {key_of(name): ABSENT if value is None else value for name, value in own.items()}
        settings = dict(own)
        for name, expression in self.derived.items():
            value = (more or {}).get(name) if name in (more or {}) else expression.value(known)
            known[key_of(name)] = ABSENT if value is None else value
            settings[name] = None if value is ABSENT or value is False else value
        return Combination(own, settings | (more or {}), baseline)

    def allows(self, one: Combination) -> bool:
        known = {key_of(name): ABSENT if value is None else value for name, value in one.settings.items()}
        return all(bool(rule.value(known)) for rule in self.constraints)


def grid_of(asked: SweepAsked) -> Grid:
    """Raises InvalidFact for values without an end, names that nobody knows, and what cannot be computed."""
    values = {name: _values(name, told) for name, told in asked.parameters.items()}
    _check_names([*asked.parameters, *asked.derived])
    if (count := math.prod(map(len, values.values()))) > _MOST_COMBINATIONS:
        raise InvalidFact(f"These parameters have {count} combinations; {_MOST_COMBINATIONS} are the most.")
    known = {key_of(name) for name in values}
    derived = {}
    for name, text in asked.derived.items():
        derived[name] = _known(Expression(text, f"derived.{name}"), known)
        known.add(key_of(name))
    constraints = [_known(Expression(text, "constraints"), known) for text in asked.constraints]
    return Grid(values, derived, constraints)


def trials_of(asked: SweepAsked, grid: Grid) -> list[Combination]:
    """The trials of a grid in their order, the baseline first; of a search, what it chooses from."""
    searching = asked.searching.method != "grid"
    found = list(islice(grid.combinations(), _MOST_COMBINATIONS if searching else MOST_TRIALS + 1))
    if not found:
        raise InvalidFact("The constraints leave no combination of these parameters: nothing would be tried.")
    if len(found) > MOST_TRIALS and not searching:
        raise InvalidFact(
            f"More than {MOST_TRIALS} combinations are left: give fewer values, constraints, or a search."
        )
    if asked.order == "shuffled":
        random.Random(asked.searching.seed).shuffle(found)
    if asked.baseline is not None:
        base = _baseline(asked, grid)
        found = [base, *(one for one in found if one.settings != base.settings)]
    return found


def _baseline(asked: SweepAsked, grid: Grid) -> Combination:
    """Parameters that it does not name have their first value; what else it names comes before what is derived."""
    told = {name: plain(f"baseline.{name}", value) for name, value in (asked.baseline or {}).items()}
    own = {name: told.pop(name) if name in told else values[0] for name, values in grid.values.items()}
    return grid.combination(own, baseline=True, more=told)


def _values(name: str, told: RangeIn | Sequence[Any]) -> list[Any]:
    if isinstance(told, RangeIn):
        return _range(name, told)
    found = [plain(f"parameters.{name}", value) for value in told]
    if not found:
        raise InvalidFact(f"parameters.{name} has no values.")
    twice = [value for at, value in enumerate(found) if value in found[:at]]
    if twice:
        raise InvalidFact(f"parameters.{name} has {text_of(twice[0])} twice.")
    return found


def plain(where: str, value: Any) -> Any:
    """A value as it is kept: None for what is left out."""
    if value == SAID_ABSENT or value is None or value is False:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidFact(f"{where}: {value} is no value.")
    return value


def _range(name: str, told: RangeIn) -> list[Any]:
    first, last, step = (Decimal(one) for one in (told.first, told.last, told.step))
    if step == 0 or (last - first) / step < 0:
        raise InvalidFact(f"parameters.{name}: from {first} to {last} in steps of {step} never ends.")
    if "step" not in told.model_fields_set and any(one != one.to_integral_value() for one in (first, last)):
        raise InvalidFact(f"parameters.{name}: from {first} to {last} in steps of what? Only whole numbers need none.")
    count = int((last - first) / step) + 1
    if count > MOST_TRIALS:
        raise InvalidFact(f"parameters.{name}: {count} values are too many; {MOST_TRIALS} are the most.")
    found = [first + step * at for at in range(count)]
    return [int(value) if value == value.to_integral_value() else float(value) for value in found]


def _check_names(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if not re.fullmatch(r"-{0,2}[A-Za-z_][\w-]*", name):
            raise InvalidFact(
                f"{name!r} is no name of a flag or a variable: write speculative-num-steps, or NCCL_ALGO."
            )
        if (other := seen.setdefault(key_of(name), name)) != name or names.count(name) > 1:
            raise InvalidFact(f"{name} and {other} are the same setting: one of them is too many.")


def _known(expression: Expression, known: set[str]) -> Expression:
    unknown = sorted(expression.names - known)
    if unknown:
        raise expression.refused(f"{unknown[0]} is not known; there are {', '.join(sorted(known))}")
    return expression


def key_of(name: str) -> str:
    """What a setting is called in an expression."""
    return name.lstrip("-").replace("-", "_")


def is_variable(name: str) -> bool:
    """Names in capitals are those of environment variables."""
    return _VARIABLE.fullmatch(name) is not None


def text_of(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
