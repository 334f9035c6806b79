"""Ray Tune's search spaces as parameters of a dptune space, and points of it as Tune configurations.

A parameter in a nested dict is named by its path, "model/depth". Uniform and log-uniform floats and integers, quantised
or not, are searched. ``choice`` and ``sample_from`` are drawn independently. Everything else is refused by name.

Tune shows a searcher the Tuner's space with *placeholders*, ``("__ref_ph", hash)``, for objects and functions, and
replaces them in a trial. So a searcher proposes placeholders where the Tuner's space has them. For all else it uses its
own copy of the space, if it has one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np
from ray.tune.impl.placeholder import _FunctionResolver, _RefResolver, create_resolvers_map, inject_placeholders
from ray.tune.search import sample
from ray.tune.utils.util import unflatten_dict

import dptune
from dptune._checks import shown
from dptune.space import Value

Domains = dict[str, Any]  # path -> ray.tune Domain
SEPARATOR = "/"
_NOT_PLAIN = object()
_LISTS = (list, tuple, set, frozenset)
_PLACEHOLDERS = (_RefResolver.TOKEN, _FunctionResolver.TOKEN)


def domains_of(param_space: Mapping[str, Any]) -> Domains:
    """Return the parameters to choose in a Tune search space, by path."""
    domains = {path: value for path, value in leaves(param_space) if isinstance(value, sample.Domain)}
    for path, domain in domains.items():
        _check(path, domain)
    return domains


def leaves(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and value of everything in a search space or a configuration that is not a dict."""
    for key, value in config.items():
        path = f"{prefix}{key}"
        if SEPARATOR in str(key) and isinstance(value, Mapping | sample.Domain):
            raise _refused(path, '"/" in a name stands for a nested dict.')
        if not isinstance(key, str) and _holds_domain(value):
            raise _refused(path, f"its name is not text but {shown(key)}.")
        if _is_grid(value):
            raise _refused(path, "grid_search is refused, a grid has no budget; use tune.choice([...]).")
        if isinstance(value, _LISTS) and _holds_domain(value):
            raise _refused(path, "a search space inside a list; use a dict.")
        if isinstance(value, Mapping):
            yield from leaves(value, path + SEPARATOR)
        else:
            yield path, value


def _refused(path: str, why: str) -> dptune.InputError:
    return dptune.InputError(f"the parameter {path!r}: {why}")


def _holds_domain(value: Any) -> bool:
    return _anywhere(value, lambda one: isinstance(one, sample.Domain) or _is_grid(one))


def _is_grid(value: Any) -> bool:
    return isinstance(value, Mapping) and "grid_search" in value


def hides(value: Any) -> bool:
    """Return whether Tune has put placeholders into a value."""
    return _anywhere(value.categories if isinstance(value, sample.Categorical) else value, _is_placeholder)


def _is_placeholder(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and value[0] in _PLACEHOLDERS


def _anywhere(value: Any, matches: Callable[[Any], bool]) -> bool:
    """Return whether a value, or one in its dicts and lists, satisfies the test."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, _LISTS) else ()
    return matches(value) or any(_anywhere(one, matches) for one in inner)


def _check(path: str, domain: Any) -> None:
    if isinstance(domain, sample.Categorical) and _holds_domain(domain.categories):
        raise _refused(path, "a search space inside tune.choice; draw it by sample_from.")
    if hides(domain) and not all(hides(category) for category in domain.categories if category is not None):
        raise _refused(
            path,
            "Tune cannot choose between objects and plain values. Choose among names, and look the objects up in your "
            "function; or give the search space to the searcher alone.",
        )
    inner = _unquantised(domain)
    supported = (sample.Float, sample.Integer, sample.Categorical, sample.Function)
    if isinstance(inner, sample.Normal):
        raise _refused(path, "randn and qrandn have no bounds; give it a range, e.g. tune.uniform(-3, 3).")
    if not isinstance(domain, supported) or not isinstance(
        inner, sample.Uniform | sample.LogUniform | sample.BaseSampler
    ):
        raise _refused(path, f"{type(domain).__name__} sampled by {type(inner).__name__} is not supported.")


def constants(param_space: Mapping[str, Any]) -> dict[str, Any]:
    """Return a search space without parameters to choose and placeholders."""
    return _kept(param_space, lambda _, value: not (isinstance(value, sample.Domain) or hides(value)))


def without(config: Mapping[str, Any], left_out: Collection[str]) -> dict[str, Any]:
    """Return a configuration without the values at some paths."""
    return _kept(config, lambda path, _: path not in left_out)


def _kept(config: Mapping[str, Any], keep: Callable[[str, Any], bool], prefix: str = "") -> dict[str, Any]:
    """Return the kept part of a configuration in the same dicts; ``keep`` sees path and value (None for a dict)."""
    kept = {}
    for key, value in config.items():
        path = f"{prefix}{key}"
        is_dict = isinstance(value, Mapping)
        if keep(path, None if is_dict else value):
            kept[key] = _kept(value, keep, path + SEPARATOR) if is_dict else value
    return kept


def paths(config: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Yield the path of everything in a configuration, of dicts too."""
    for key, value in config.items():
        yield f"{prefix}{key}"
        if isinstance(value, Mapping):
            yield from paths(value, f"{prefix}{key}{SEPARATOR}")


def lacking(config: Mapping[str, Any], param_space: Mapping[str, Any]) -> list[str]:
    """Return the paths of a search space without a value in a configuration."""
    return sorted({path for path, _ in leaves(param_space)} - set(paths(config)))


def differing(own: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the paths at which the Tuner's search space, with placeholders, differs from the searcher's."""
    chosen, theirs = domains_of(own), _choices(other)
    if not chosen or not theirs:
        return sorted(chosen.keys() & dict(leaves(other)))
    ours = _choices(own)
    return sorted(path for path in ours | theirs if ours.get(path) != theirs.get(path))


def _choices(param_space: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters to choose by path, in Tune's form; equal choices compare equal."""
    shown = inject_placeholders(copy.deepcopy(dict(param_space)), create_resolvers_map())
    functions = [path for path, one in leaves(shown) if _is_placeholder(one) and one[0] == _FunctionResolver.TOKEN]
    described = {path: _described(domain) for path, domain in domains_of(shown).items()}
    return {**dict.fromkeys(functions, "sample_from"), **described}


def _described(domain: Any) -> tuple[Any, ...]:
    if isinstance(domain, sample.Categorical):
        return (domain.categories,)
    return type(domain), domain.lower, domain.upper, _is_log(domain), _step(domain)


def merged(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a Tuner's search space with the searcher's own values instead of placeholders."""
    both = {key: _merged(ours[key], theirs[key]) for key in theirs if key in ours}
    return {**ours, **theirs, **both}


def _merged(ours: Any, theirs: Any) -> Any:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return merged(ours, theirs)
    hidden = hides(theirs) and not isinstance(theirs, sample.Domain)
    return ours if hidden or isinstance(ours, sample.Domain) else theirs


def to_space(domains: Domains) -> dptune.Space | None:
    """Return the numerical parameters that can vary; None if nothing varies."""
    searched = {path: p for path, domain in domains.items() if (p := _number(domain)) is not None}
    return dptune.Space(searched) if searched else None


def _number(domain: Any) -> dptune.Float | dptune.Int | None:
    """Return the searched number; a quantised log scale is searched without quantisation."""
    if not isinstance(domain, sample.Float | sample.Integer):
        return None
    log, (low, high) = _is_log(domain), _ends(domain)
    step = None if log else _step(domain)
    if not low < high:
        return None
    if isinstance(domain, sample.Float):
        return dptune.Float(low, high, log=log, step=step)
    return dptune.Int(low, high, log=log, step=step or 1)


def _unquantised(domain: Any) -> Any:
    sampler = domain.get_sampler()
    return sampler.sampler if isinstance(sampler, sample.Quantized) else sampler


def _is_log(domain: Any) -> bool:
    return isinstance(_unquantised(domain), sample.LogUniform)


def _step(domain: Any) -> Any:
    return getattr(domain.get_sampler(), "q", None)


def _ends(domain: Any) -> tuple[Any, Any]:
    """Return the smallest and the largest value that Tune would draw."""
    q = _step(domain)
    if isinstance(domain, sample.Float):
        return float(domain.lower), float(domain.upper)
    if q is None or q == 1:
        return int(domain.lower), int(domain.upper) - 1  # Tune's upper end is exclusive
    return int(-(-domain.lower // q) * q), int(domain.upper // q * q)


def resolve(
    domains: Domains,
    proposed: Mapping[str, Value],
    constants: Mapping[str, Any],
    rng: np.random.Generator,
    config: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a Tune configuration with a value for every domain, proposed by path or drawn.

    ``sample_from`` functions see the ``constants`` and earlier choices. If the Tuner's space is ``given``, its
    placeholders replace objects, and Tune evaluates its functions.
    """
    theirs = dict(leaves(config or {}))
    domains = {path: domain for path, domain in domains.items() if not _is_placeholder(theirs.get(path))}
    chosen = {path: rounded(domains[path], value) for path, value in proposed.items() if path in domains}
    for path in sorted(domains, key=lambda path: domains[path].is_function()):  # functions last: they read the others
        if path not in chosen:
            so_far = nested({**dict(leaves(constants)), **chosen})
            chosen[path] = domains[path].sample(config=so_far, random_state=rng)
    return nested({path: _as_shown(chosen[path], domain, theirs.get(path)) for path, domain in domains.items()})


def _as_shown(value: Any, domain: Any, theirs: Any) -> Any:
    if not hides(theirs):
        return value
    return theirs.categories[next(i for i, category in enumerate(domain.categories) if category is value)]


def rounded(domain: Any, value: Value) -> Value:
    """Return a proposed value in Tune's form: a multiple of q on a quantised log scale."""
    q = _step(domain) if _is_log(domain) else None
    if q is None or not isinstance(value, float | int):
        return value
    low, high = _ends(domain)
    return type(value)(min(max(round(value / q) * q, low), high))


def nested(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by path as nested dicts."""
    config: dict[str, Any] = unflatten_dict(dict(parameters), SEPARATOR)
    return config


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return plain values of a configuration, and lists of them, by path; leave objects out."""
    if hidden := [path for path, value in leaves(config) if hides(value)]:
        raise dptune.InputError(
            f"Tune has put placeholders in the place of {', '.join(map(repr, hidden))}. Give the search space to the "
            "searcher; after a restart also Tuner.restore(..., param_space=...) puts the objects back."
        )
    plain = {path: _plain(value) for path, value in leaves(config)}
    return {path: value for path, value in plain.items() if value is not _NOT_PLAIN}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):  # inside a list
        inner = {key: _plain(one) for key, one in value.items()}
        return _NOT_PLAIN if any(one is _NOT_PLAIN for one in inner.values()) else inner
    if isinstance(value, list | tuple):
        listed = [_plain(one) for one in value]
        return _NOT_PLAIN if any(one is _NOT_PLAIN for one in listed) else listed
    return value if value is None or isinstance(value, bool | int | float | str) else _NOT_PLAIN
