"""Search spaces: named parameters, as points of the unit cube, with rounding, choices and conditions.

A number maps to one coordinate in [0, 1]. Integers and steps get cells of equal width; a log scale is even in the
logarithm. A category has a coordinate for each choice: 1 for the one chosen, 0 for the others. A parameter that is not
*active*, because a condition on another one does not hold, lies at the centre of its coordinates.

``decode`` rounds, and ``encode(decode(u))`` is where a rounded point really lies: the algorithm is told that point,
not the one it asked for.

Example::

    Space(
        {"model": Categorical(["svc", "trees"]), "C": Float(1e-3, 1e3, log=True), "depth": Int(1, 8)},
        when={"C": {"model": ["svc"]}, "depth": {"model": ["trees"]}},
    )
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

from dptune._arrays import Mask, Matrix, Vector
from dptune._checks import shown
from dptune.errors import InputError
from dptune.parameters import Categorical as Categorical
from dptune.parameters import Float as Float
from dptune.parameters import Int as Int
from dptune.parameters import Parameter, allows, as_choice, code_of, key_of, snapped, width_of
from dptune.parameters import Value as Value

Conditions = Mapping[str, Mapping[str, Collection[Value]] | None]


class Space(Mapping[str, Parameter]):
    """A set of named parameters, in the order of their names; a part of the unit cube [0, 1]^d.

    Args:
        parameters: name -> :class:`Float`, :class:`Int` or :class:`Categorical`.
        when: name -> {another parameter: its values}: active only where each of the others is active and has one of
            these values. None in place of the values: active in some configurations, nobody knows yet in which.

    Raises:
        InputError: it is empty or holds something else, or a condition is about no parameter, about itself or about
            a continuum.
    """

    def __init__(self, parameters: Mapping[str, Parameter], *, when: Conditions | None = None) -> None:
        for name, parameter in parameters.items():
            if not isinstance(parameter, Parameter):
                raise InputError(
                    f"parameter {name!r} must be a Float, an Int or a Categorical; got {type(parameter).__name__}."
                )
        if not parameters:
            raise InputError("a search space needs at least one parameter.")
        self._parameters = dict(sorted(parameters.items()))
        ends = np.cumsum([0, *(width_of(p) for p in self._parameters.values())]).tolist()
        self.d = int(ends[-1])
        self.columns = {name: slice(*ends[j : j + 2]) for j, name in enumerate(self._parameters)}
        self.when = {name: self._condition(name, (when or {})[name]) for name in sorted(when or {})}
        for name in self.when:
            self._refuse_circle(name, ())
        widths = [width_of(p) for p in self.values()]
        self._inactive = np.array([1 / width if width > 1 else 0.5 for width in widths for _ in range(width)])
        middle = self._values_at(self._inactive)
        self._usual = {name: middle[name] for name in self if self.when.get(name, {}) is not None}

    def __getitem__(self, name: str) -> Parameter:
        return self._parameters[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __len__(self) -> int:
        return len(self._parameters)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and self.describe() == other.describe()

    @property
    def numbers(self) -> dict[str, Float | Int]:
        """The parameters that are numbers."""
        return {name: p for name, p in self.items() if not isinstance(p, Categorical)}

    @property
    def plain(self) -> bool:
        """Whether there are numbers only, without conditions: each parameter is one coordinate."""
        return len(self.numbers) == len(self) and not self.when

    def refuse_choices(self, who: str) -> None:
        """Refuse categories and conditions in the name of what searches numbers only.

        Raises:
            InputError: there are some.
        """
        if not self.plain:
            raise InputError(
                f"{who} searches numbers without conditions: give it Float and Int parameters only, or use the centred "
                "search, which takes any space."
            )

    @property
    def resolution(self) -> Vector:
        """Cell width of each number, 0 for a continuum."""
        return np.array([0.0 if p.cells is None else 1.0 / p.cells for p in self.numbers.values()])

    @property
    def inactive(self) -> Vector:
        """Where the coordinates of parameters lie that are not active, (d,): the centre of the choices, or 1/2."""
        return self._inactive.copy()

    def centre(self) -> dict[str, Value]:
        """Return the configuration in the middle: of every number the middle, of every category the first choice."""
        return self.decode(self.inactive)

    def joined(self, other: Space) -> Space:
        """Return this space with the parameters of another one that it lacks, and what both know of conditions.

        A parameter is conditional if either space has seen it absent. Of two conditions on one parameter the values of
        both hold; of conditions on different parameters that of this space.
        """
        parameters = {**other, **self}
        when: dict[str, Condition] = {**other.when, **self.when}
        for name in self.when.keys() & other.when.keys():
            when[name] = _either(self.when[name], other.when[name])
        try:
            return Space(parameters, when=_in_order(parameters, when))
        except InputError:  # the conditions of both go round in a circle: of the other one's nobody knows which holds
            return Space(parameters, when={**dict.fromkeys(when), **self.when})

    def recoded(self, U: Matrix, earlier: Space) -> Matrix:
        """Return points (k, d') of a space that this one has joined as points (k, d) of this one: the rest inactive."""
        V = np.tile(self.inactive, (len(U), 1))
        for name, columns in earlier.columns.items():
            V[:, self.columns[name]] = U[:, columns]
        return V

    def decode(self, u: Vector) -> dict[str, Value]:
        """Return the active parameters at u (d,), which is cut to the cube."""
        values = self._values_at(np.clip(u, 0.0, 1.0))
        return {name: value for name, value in values.items() if self.active(name, values)}

    def completed(self, parameters: Mapping[str, Value]) -> dict[str, Value]:
        """Return parameters, with the middle of its range, or the first choice, for each that should not be missing."""
        return {**self._usual, **parameters}

    def _values_at(self, u: Vector) -> dict[str, Value]:
        values: dict[str, Value] = {}
        for name, p in self.items():
            at = u[self.columns[name]]
            values[name] = p.decode(at) if isinstance(p, Categorical) else p.decode(float(at[0]))
        return values

    def encode(self, parameters: Mapping[str, Value]) -> Vector:
        """Return the point (d,) in the cube; parameters outside their range are cut to it.

        Raises:
            InputError: an active parameter is missing.
        """
        active = [name for name in self if self.active(name, parameters)]
        missing = [name for name in active if name not in parameters]
        if missing:
            raise InputError(f"parameters {missing} are missing.")
        u = self.inactive
        for name in active:
            u[self.columns[name]] = code_of(self[name], parameters[name])
        return u

    def active(self, name: str, parameters: Mapping[str, Value]) -> bool:
        """Return whether a parameter is active in a configuration."""
        if name not in self.when:
            return True
        condition = self.when[name]
        if condition is None:
            return name in parameters
        return all(
            self.active(other, parameters) and other in parameters and key_of(parameters[other]) in map(key_of, values)
            for other, values in condition.items()
        )

    def snap(self, U: Matrix) -> Matrix:
        """Return where points U (k, d) of the cube really lie: ``encode(decode(u))`` of each, much faster."""
        inside = np.clip(U, 0.0, 1.0)
        V = np.hstack([snapped(p, inside[:, self.columns[name]]) for name, p in self.items()])
        for name, active in self.activity(V).items():
            V[~active, self.columns[name]] = self.inactive[self.columns[name]]
        return V

    def activity(self, V: Matrix) -> dict[str, Mask]:
        """Tell in which of the points V (k, d), as :meth:`snap` returns them, each conditional parameter is active."""
        masks: dict[str, Mask] = {}

        def active(name: str) -> Mask:
            if name not in masks:
                terms = [active(other) & self._takes(other, values, V) for other, values in self.when_of(name).items()]
                masks[name] = np.logical_and.reduce([np.ones(len(V), dtype=bool), *terms])
            return masks[name]

        return {name: active(name) for name in self.when}

    def when_of(self, name: str) -> dict[str, tuple[Value, ...]]:
        """Return what is known of the condition of a parameter: {another parameter: its values}."""
        return self.when.get(name) or {}

    def _takes(self, name: str, values: tuple[Value, ...], V: Matrix) -> Mask:
        """Tell in which points a parameter has one of these values, (k,)."""
        codes = [code_of(self[name], value) for value in values]
        at = V[:, self.columns[name]]
        return np.asarray(np.logical_or.reduce([np.isclose(at, code).all(axis=1) for code in codes]))

    def contains(self, parameters: Mapping[str, Value]) -> bool:
        """Return whether every active parameter of the space is there and within its range."""
        return not self.validation_error(parameters)

    def validation_error(self, parameters: Mapping[str, Value]) -> str:
        """Return what keeps them from being a point of the space, for a message; "" if nothing does."""
        for name in (name for name in self if self.active(name, parameters)):
            if name not in parameters:
                others = ", ".join(repr(other) for other in parameters if other not in self)
                return f"{name!r} is missing{others and f' ({others} is no parameter of it)'}"
            if not allows(self[name], parameters[name]):
                return f"{name!r} cannot be {shown(parameters[name])}; allowed: {self[name]}"
        return ""

    def describe(self) -> dict[str, dict[str, object]]:
        """Return plain JSON data."""
        described = {name: {"type": type(p).__name__, **vars(p)} for name, p in self.items()}
        for name, condition in self.when.items():
            described[name]["when"] = condition
        plain_data: dict[str, dict[str, object]] = json.loads(json.dumps(described))
        return plain_data

    @classmethod
    def from_description(cls, described: Mapping[str, Mapping[str, Any]]) -> Space:
        """Return the space that :meth:`describe` described."""
        kinds: dict[str, type[Parameter]] = {kind.__name__: kind for kind in (Float, Int, Categorical)}
        facts = {name: {k: v for k, v in d.items() if k not in ("type", "when")} for name, d in described.items()}
        return cls(
            {name: kinds[d["type"]](**facts[name]) for name, d in described.items()},
            when={name: d["when"] for name, d in described.items() if "when" in d},
        )

    # ---- conditions --------------------------------------------------------------------------------

    def _condition(self, name: str, condition: object) -> dict[str, tuple[Value, ...]] | None:
        if name not in self:
            raise InputError(f"when= has a condition for {name!r}, which is not a parameter of the space.")
        if condition is None:
            return None
        if not isinstance(condition, Mapping) or not condition:
            raise InputError(
                f"the condition of {name!r} must be {{another parameter: its values}}; got {shown(condition)}."
            )
        return {other: self._values(name, other, values) for other, values in condition.items()}

    def _values(self, name: str, other: str, values: object) -> tuple[Value, ...]:
        """Return the values of another parameter for which ``name`` is active."""
        parent = self.get(other)
        if parent is None or (isinstance(parent, Float) and parent.cells is None):
            raise InputError(
                f"the condition of {name!r} is about {other!r}, which must be another parameter with choices or steps."
            )
        if isinstance(values, str) or not isinstance(values, Collection) or not values:
            raise InputError(f"the condition of {name!r} needs a list of values of {other!r}; got {shown(values)}.")
        unknown = [value for value in values if not allows(parent, value)]
        if unknown:
            raise InputError(
                f"the condition of {name!r} has values that {other!r} never takes: {', '.join(map(shown, unknown))}."
            )
        return tuple(map(as_choice, values))

    def _refuse_circle(self, name: str, below: tuple[str, ...]) -> None:
        if name in below:
            raise InputError(f"the conditions of {name!r} go round in a circle: {' -> '.join((*below, name))}.")
        for other in self.when_of(name):
            self._refuse_circle(other, (*below, name))


Condition = Mapping[str, tuple[Value, ...]] | None


def _either(one: Condition, other: Condition) -> Condition:
    """Return the condition that holds where one of two does; if they are about different parameters, the first."""
    if one is None or other is None or one.keys() != other.keys() or len(one) != 1:
        return one
    ((parent, values),) = one.items()
    wanted = set(map(key_of, values))
    return {parent: (*values, *(value for value in other[parent] if key_of(value) not in wanted))}


def _in_order(parameters: Mapping[str, Parameter], when: Mapping[str, Condition]) -> dict[str, Condition]:
    """Return conditions with their values in the order of the parameter, whoever has seen which first."""

    def place(parent: str, value: Any) -> float:
        p = parameters.get(parent)
        return [*map(key_of, p.choices)].index(key_of(value)) if isinstance(p, Categorical) else float(value)

    return {
        name: condition
        and {parent: tuple(sorted(values, key=lambda v: place(parent, v))) for parent, values in condition.items()}
        for name, condition in when.items()
    }
