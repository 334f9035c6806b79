"""Private rows are found in whatever holds them, and what loads them however it is named; nothing of a user's runs."""

import collections
import dataclasses
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution
from sklearn.linear_model import Ridge

import dptune
import dptune_optuna
from dptune.errors import InputError
from dptune.losses.named import NamedLoss
from dptune.losses.user_function import losses_function
from dptune.privacy.seal import holders
from dptune.privacy.seal.reachable import refuse_reachable

N = 20
CALLS: list[str] = []  # of code of the user's
X_VAL, X_TRAIN = np.random.default_rng(1).normal(size=(2, N, 2))
Y_VAL, Y_TRAIN = X_VAL[:, 0].copy(), X_TRAIN[:, 0].copy()


class Blank:
    """A class of the user's, with whatever attributes."""

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


@dataclasses.dataclass(slots=True)
class Slotted:
    rows: Any


class Both(list[Any]):
    """A list that has attributes, too."""


class Chapters(Sequence[Any]):
    def __init__(self, *held: Any) -> None:
        self._held = held

    def __len__(self) -> int:
        CALLS.append("len")
        return len(self._held)

    def __getitem__(self, place: Any) -> Any:
        CALLS.append("getitem")
        return self._held[place]


class Pair(tuple[Any, ...]):
    __slots__ = ()


class Shy:
    """Notices whatever asks it for an attribute."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Any) -> None:
        object.__setattr__(self, "_rows", rows)

    def __getattribute__(self, name: str) -> Any:
        CALLS.append(name)
        return object.__getattribute__(self, name)

    @property
    def rows(self) -> Any:
        return self._rows


class Meta(type):
    """Notices whatever asks a class, its hash, and whether it is equal to another one."""

    def __getattribute__(cls, name: str) -> Any:
        CALLS.append(name)
        return type.__getattribute__(cls, name)

    def __eq__(cls, other: object) -> bool:
        CALLS.append("eq")
        return cls is other

    def __hash__(cls) -> int:
        CALLS.append("hash")
        return 1


class Properties:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    @property
    def __class__(self) -> Any:
        CALLS.append("class")
        return np.ndarray

    def __getattr__(self, name: str) -> Any:
        CALLS.append(name)
        raise AttributeError(name)

    def __eq__(self, other: object) -> bool:
        CALLS.append("eq")
        return True

    __hash__ = None


def a_class(rows: Any, *bases: type, name: str = "rows") -> Any:
    return type("CFG", bases, {name: rows, "__module__": __name__})


def an_array(*held: Any) -> Any:
    objects = np.empty((1, len(held)), dtype=object)
    objects[0, :] = held
    return objects


def a_generator(rows: Any) -> Iterator[Any]:
    own = rows.view()
    while True:
        yield own


def started(rows: Any) -> Iterator[Any]:
    generator = a_generator(rows)
    next(generator)
    return generator


def a_function(rows: Any) -> Callable[[], Any]:
    def function() -> Any:
        return function.rows

    function.rows = rows
    return function


def cached(rows: Any) -> Callable[[], Any]:
    kept = [rows]
    once = functools.cache(lambda: kept.pop())
    once()
    return once


def in_a_script(rows: Any, source: str) -> Any:
    """What `source` defines as `held`, in a script of the user's, where `X_val` and `outer.inner.X_val` are rows."""
    outer, inner = types.ModuleType("outer"), types.ModuleType("inner")
    outer.inner, inner.outer, inner.X_val = inner, outer, rows
    script = {"X_val": rows, "outer": outer, "__name__": "script"}
    exec(source, script)
    return script["held"]


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "a class": a_class,
    "a class of a class": lambda rows: a_class(a_class(rows)),
    "a base class": lambda rows: type("Own", (a_class(rows),), {}),
    "a metaclass": lambda rows: type.__new__(type("OwnMeta", (Meta,), {"rows": rows}), "Own", (), {}),
    "an object of a metaclass": lambda rows: Meta("Own", (), {"rows": rows})(),
    "a class's method": lambda rows: in_a_script(rows, "class held:\n def fit(self): return X_val"),
    "a class method": lambda rows: a_class(classmethod(lambda cls: rows)),
    "a static method": lambda rows: a_class(staticmethod(lambda: rows)),
    "an object with properties": Properties,
    "a property": lambda rows: a_class(property(lambda self: rows)),
    "a cached property": lambda rows: a_class(functools.cached_property(lambda self: rows)),
    "an object's class": lambda rows: a_class(rows)(),
    "a callable object": lambda rows: type("Own", (a_class(rows),), {"__call__": lambda self: self.rows})(),
    "a bound method": lambda rows: type("Own", (a_class(rows),), {"fit": lambda self: self.rows})().fit,
    "slots": Slotted,
    "slots of a shy object": Shy,
    "a deque": lambda rows: collections.deque([rows]),
    "a sequence": Chapters,
    "a list's attribute": lambda rows: (own := Both(), setattr(own, "rows", rows))[0],
    "a list of a subclass": lambda rows: Both([rows]),
    "a tuple of a subclass": lambda rows: Pair((rows,)),
    "a named tuple": lambda rows: collections.namedtuple("Named", "rows")(rows),
    "values of a dict": lambda rows: {"a": rows}.values(),
    "items of a dict": lambda rows: {"a": rows}.items(),
    "a key of a dict": lambda rows: {Blank(rows=rows): 1},
    "a read-only dict": lambda rows: types.MappingProxyType({"a": rows}),
    "a default dict": lambda rows: collections.defaultdict(list, a=rows),
    "a user's dict": lambda rows: collections.UserDict(a=rows),
    "a set": lambda rows: {Blank(rows=rows)},
    "an array of objects": lambda rows: an_array(None, rows),
    "an array of objects of objects": lambda rows: an_array(an_array([rows])),
    "a builtin method": lambda rows: rows.copy,
    "a slot's method": lambda rows: rows.__len__,
    "a method of a list": lambda rows: [rows].pop,
    "a partial": lambda rows: functools.partial(np.mean, rows),
    "an iterator": lambda rows: iter([rows]),
    "a chain of iterators": lambda rows: enumerate(map(len, iter([rows]))),
    "a generator": started,
    "a function's attribute": a_function,
    "a cache": cached,
    "a module of a module": lambda rows: in_a_script(rows, "def held(): return outer.inner.X_val"),
    "a namespace": lambda rows: types.SimpleNamespace(rows=rows),
}  # fmt: skip


def candidate(C: float = 1.0) -> Any:
    return Ridge(C).fit(X_TRAIN, Y_TRAIN)


class Model(Ridge):
    held: Any = None


def study() -> optuna.Study:
    made = optuna.create_study()
    for C in (0.1, 1.0, 10.0):
        space = {"C": FloatDistribution(0.01, 100.0)}
        made.add_trial(optuna.trial.create_trial(params={"C": C}, distributions=space, value=C))
    return made


def chosen(ledger: dptune.PrivacyLedger, train: Any, data: Any, *, loss: Any = "mse", public: bool = True) -> None:
    rows = {"public": (X_TRAIN, Y_TRAIN)} if public else {}
    n = {"n": N} if callable(data) else {}
    dptune_optuna.choose(study(), train, ledger=ledger, loss=loss, data=data, progress=False, **rows, **n)


def own_loss(held: Any) -> NamedLoss:
    return NamedLoss("own", lambda y, answers: (y - answers) ** 2 + 0 * id(held))


def a_model(held: Any) -> Any:
    model = Model().fit(X_TRAIN, Y_TRAIN)
    model.held = held
    return model


def select(ledger: dptune.PrivacyLedger, held: Any, data: Any) -> None:
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    dptune.select([a_model(None), a_model(held)], privatizer, name="s", loss="mse", data=data)


def report(ledger: dptune.PrivacyLedger, held: Any, data: Any) -> None:
    privatizer = dptune.LossPrivatizer(ledger, n=N, clip=(0.0, 1.0))
    dptune.report(a_model(held), privatizer, data=data, public=(X_TRAIN, Y_TRAIN > 0))


def at_a_place(data: Any) -> dptune.Places:
    return dptune.Places([dptune.Place("a", data, n=N if callable(data) else None)])


DOORS: dict[str, Callable[[dptune.PrivacyLedger, Any, Any], None]] = {
    "train": lambda ledger, held, data: chosen(ledger, lambda trial, X, y: (held, candidate())[1], data),
    "objective": lambda ledger, held, data: chosen(ledger, lambda trial: held, data, public=False),
    "loss": lambda ledger, held, data: chosen(ledger, lambda trial, X, y: candidate(), data, loss=own_loss(held)),
    "train, at a place": lambda ledger, held, data: chosen(
        ledger, lambda trial, X, y: (held, candidate())[1], at_a_place(data)
    ),
    "a model": select,
    "a model of a report": report,
    "a search's function": lambda ledger, held, data: losses_function(lambda _: held, "mse", data, rows=N),
    "a search's loss": lambda ledger, held, data: losses_function(
        lambda _: candidate(), own_loss(held), data, rows=N
    ),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("holder", HOLDERS)
def test_private_rows_are_found_in_every_holder(ledger: dptune.PrivacyLedger, holder: str, door: str) -> None:
    with pytest.raises(InputError, match=r"can reach the private data=|shares memory") as refused:
        DOORS[door](ledger, HOLDERS[holder](X_VAL), (X_VAL, Y_VAL))
    assert not any(str(value) in str(refused.value) for value in Y_VAL)
    assert ledger.count() == 0


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_holds_public_rows_is_not_refused_and_not_called(holder: str) -> None:
    held = HOLDERS[holder](X_TRAIN)
    CALLS.clear()
    refuse_reachable(lambda trial: held, X_VAL, Y_VAL)
    assert not CALLS


def test_a_method_that_nothing_calls_is_not_searched() -> None:
    """Only code that was searched, and libraries, call methods; what a class keeps is searched anyway."""
    held = in_a_script(X_VAL, "class held:\n def stop(self): return X_val\n def rest(self): return self.stop()")
    refuse_reachable(lambda trial: held().go(), X_VAL, Y_VAL)
    for call in (lambda trial: held().stop(), lambda trial: held().rest()):
        with pytest.raises(InputError, match="through held: stop: X_val"):
            refuse_reachable(call, X_VAL, Y_VAL)


def test_the_nearest_objects_are_searched_whatever_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "_MOST", 10)
    large, held = [Blank() for _ in range(100)], [X_VAL]
    with pytest.raises(InputError, match="through held: an entry"):
        refuse_reachable(lambda trial: (large, held), X_VAL, Y_VAL)
    refuse_reachable(lambda trial: [large, large], X_VAL, Y_VAL)


# ---- what loads private rows ------------------------------------------------------------------------------


def load(path: str = "private.npz") -> Any:
    return X_VAL.copy(), Y_VAL.copy()


class Store:
    """One object loads both parts."""

    def load(self) -> Any:
        return load()

    def public(self) -> Any:
        return np.load("public.npz")

    @classmethod
    def of_class(cls) -> Any:
        return load()

    @staticmethod
    def static() -> Any:
        return load()

    @staticmethod
    def static_public() -> Any:
        return X_TRAIN, Y_TRAIN

    def __call__(self) -> Any:
        return load()


def imports_a_module() -> Any:
    import joblib

    return joblib.load("public.pkl")


@functools.wraps(load)
def wrapping() -> Any:
    return load()


STORE, PATH = Store(), "private.npz"
LOADERS: dict[str, tuple[Any, Callable[[], Any]]] = {  # data=, and code that calls it
    "a function": (load, lambda: load()),
    "a method": (STORE.load, lambda: STORE.load()),
    "a method by another name": (STORE.load, lambda call=STORE.load: call()),
    "a class method": (Store.of_class, lambda: Store.of_class()),
    "a class method of an object": (STORE.of_class, lambda: STORE.of_class()),
    "a static method": (Store.static, lambda: Store.static()),
    "a static method by another name": (Store.static, lambda call=Store.static: call()),
    "a static method of an object": (Store.static, lambda: STORE.static()),
    "an object": (STORE, lambda: STORE()),
    "a partial": (functools.partial(load, PATH), lambda: load(PATH)),
    "a partial of a partial": (functools.partial(functools.partial(load), PATH), lambda: load(PATH)),
    "a partial of a method": (functools.partial(STORE.load), lambda: STORE.load()),
    "a cache": (functools.cache(load), lambda: load()),
    "a wrapper": (wrapping, lambda: load()),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("loader", LOADERS)
def test_what_loads_private_rows_is_found(ledger: dptune.PrivacyLedger, loader: str, door: str) -> None:
    data, calls = LOADERS[loader]
    with pytest.raises(InputError, match=r"which loads the private rows|loads the private rows of data="):
        DOORS[door](ledger, calls, data)
    assert ledger.count() == 0


@pytest.mark.parametrize(
    ("data", "calls"),
    [
        (STORE.load, lambda: STORE.public()),
        (STORE.load, lambda: Store().public()),
        (STORE.load, lambda: (STORE, imports_a_module())),
        (Store.static, lambda: Store.static_public()),
        (Store.of_class, lambda: Store.static_public()),
        (functools.partial(np.load, PATH), lambda: np.load("public.npz")),
    ],
)
def test_another_method_of_what_loads_private_rows_may_be_called(data: Any, calls: Any) -> None:
    refuse_reachable(calls, data)


def test_two_places_share_rows_only_if_their_loaders_are_one() -> None:
    def place(data: Any) -> dptune.Place:
        return dptune.Place("a", data, n=N)

    assert place(STORE.load).shares_rows(place(STORE.load))
    assert not place(STORE.load).shares_rows(place(STORE.public))
    assert not place(Store.static).shares_rows(place(Store.static_public))
    assert not place(functools.partial(load, "a.csv")).shares_rows(place(functools.partial(load, "b.csv")))
