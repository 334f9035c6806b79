"""Search spaces: named numbers, as points of the unit cube, with rounding.

Each number is one coordinate in [0, 1]. Integers and steps get cells of equal width; a log scale is even in the
logarithm. ``decode`` rounds, and ``encode(decode(u))`` is the rounded point's true position: the algorithm receives
that point, not the one it proposed.

Example::

    Space({"C": Float(1e-3, 1e3, log=True), "depth": Int(1, 8)})
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dptune._arrays import Vector
from dptune._checks import kind, shown
from dptune.errors import InputError
from dptune.parameters import Float as Float
from dptune.parameters import Int as Int
from dptune.parameters import Parameter, allows
from dptune.parameters import Value as Value

OTHER_SPACES = (
    "Private searches take numbers only. With categories or conditions search on public rows and let private people "
    "choose: `choose` of dptune_optuna and dptune_ray; without public rows draw candidates and give their losses to "
    "dptune.select."
)


class Space(Mapping[str, Parameter]):
    """A set of named numbers, in the order of their names; a part of the unit cube [0, 1]^d.

    Args:
        parameters: name -> :class:`Float` or :class:`Int`.

    Raises:
        InputError: it is empty or holds something else.
    """

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        if not isinstance(parameters, Mapping):
            raise InputError(f"parameters must be a dict of names and Float or Int; got {kind(parameters)}.")
        for name, parameter in parameters.items():
            if not isinstance(parameter, Float | Int):
                raise InputError(
                    f"parameters: {shown(name)} must be a Float or an Int; got {type(parameter).__name__}. "
                    f"{OTHER_SPACES}"
                )
        if not parameters:
            raise InputError("a search space needs at least one parameter.")
        self._parameters = dict(sorted(parameters.items()))
        self.d = len(self._parameters)

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return self.d

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.describe() == other.describe()

    @property
    def resolution(self) -> Vector:
        """Cell width of each number, 0 for a continuum."""
        return np.array([0.0 if p.cells is None else 1.0 / p.cells for p in self.values()])

    def centre(self) -> dict[str, Value]:
        """Return the configuration in the middle."""
        return self.decode(np.full(self.d, 0.5))

    def decode(self, u: Vector) -> dict[str, Value]:
        """Return the parameters at u (d,), which is cut to the cube."""
        return {name: p.decode(float(x)) for (name, p), x in zip(self.items(), np.clip(u, 0.0, 1.0), strict=True)}

    def encode(self, parameters: Mapping[str, Value]) -> Vector:
        """Return the point (d,) in the cube; parameters outside their range are cut to it.

        Raises:
            InputError: a parameter is missing.
        """
        if missing := [name for name in self if name not in parameters]:
            raise InputError(f"parameters {missing} are missing.")
        values: Mapping[str, Any] = parameters
        codes = [p.encode(min(max(values[name], p.low), p.high)) for name, p in self.items()]
        return np.clip(codes, 0.0, 1.0)

    def contains(self, parameters: Mapping[str, Value]) -> bool:
        """Return whether every parameter of the space is there and within its range."""
        return not self.validation_error(parameters)

    def validation_error(self, parameters: Mapping[str, Value]) -> str:
        """Return what keeps them from being a point of the space, for a message; "" if nothing does."""
        for name, parameter in self.items():
            if name not in parameters:
                others = [repr(other) for other in parameters if other not in self]
                said = f" ({', '.join(others)} {'is' if len(others) == 1 else 'are'} not in the space)" * bool(others)
                return f"{name!r} is missing{said}"
            if not allows(parameter, parameters[name]):
                return f"{name!r} cannot be {shown(parameters[name])}; allowed: {parameter}"
        return ""

    def describe(self) -> dict[str, dict[str, object]]:
        """Return plain JSON data."""
        described = {name: {"type": type(p).__name__, **vars(p)} for name, p in self.items()}
        plain_data: dict[str, dict[str, object]] = json.loads(json.dumps(described))
        return plain_data

    @classmethod
    def from_description(cls, described: Mapping[str, Mapping[str, Any]]) -> Space:
        """Return the space that :meth:`describe` described."""
        kinds: dict[str, type[Parameter]] = {kind.__name__: kind for kind in (Float, Int)}
        facts = {name: {k: v for k, v in d.items() if k != "type"} for name, d in described.items()}
        return cls({name: kinds[d["type"]](**facts[name]) for name, d in described.items()})
