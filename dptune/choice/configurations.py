"""Configurations of a search: which two are one.

In scikit-learn ``max_features=1`` is one column and ``1.0`` is all of them, but ``C=1`` and ``C=1.0`` are one model. So
configurations with equal numbers of different types are candidates of their own, until their public losses show that
they are one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from dptune.choice.public import rounded
from dptune.errors import InputError
from dptune.losses.named import NamedLoss, as_loss

Parameters = Mapping[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A configuration, and its row of ``public_losses=``; None: it is the default, which was not searched."""

    parameters: Parameters
    row: int | None


def as_parameters(default: object) -> Parameters:
    """Return the parameters of ``default=``."""
    if not isinstance(default, Mapping):
        raise InputError(f"default must be a dict of names and values; got {type(default).__name__}.")
    return default


def key_of(parameters: Parameters) -> str:
    """Return a text that equal configurations share, and no others: 10 and 10.0 differ, and so do two functions."""
    return _text({name: _number(value, int) for name, value in parameters.items()})


def numeric_key(parameters: Parameters) -> str:
    """Return a text that configurations share whose numbers are equal: 10 and 10.0 are."""
    return _text({name: _number(value, float) for name, value in parameters.items()})


def _text(parameters: Parameters) -> str:
    return json.dumps(parameters, sort_keys=True, default=_plain)


def _number(value: Any, whole: type) -> Any:
    """Return a number as Python's, a whole one as ``whole``; anything else as it is."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return value
    return whole(value) if isinstance(value, Integral) else float(value)


def _plain(value: Any) -> object:
    """Return JSON data of an object, with all parameters of an estimator, whose text shows only some."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return [type(value).__qualname__, value.get_params(deep=False)]
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def without_twins(candidates: Sequence[Candidate], losses: Sequence[Any], default: int | None) -> tuple[list[int], Any]:
    """Return the places of candidates that are not another one with equal numbers, and the default's among them.

    A candidate is an earlier one with equal numbers if it failed, or if both have equal public losses.

    Args:
        losses: of each candidate (N,), or the exception of one that failed.
    """
    keys, places = [numeric_key(each.parameters) for each in candidates], list[int]()
    same: list[int] = []  # for each candidate the place of the one that it is
    for j, (key, own) in enumerate(zip(keys, losses, strict=True)):
        twins = (i for i in places if keys[i] == key and _is_one(losses[i], own))
        same.append(next(twins, j))
        places += [j] if same[j] == j else []
    return places, None if default is None else places.index(same[default])


def _is_one(losses: Any, later: Any) -> bool:
    if isinstance(losses, Exception) or isinstance(later, Exception):
        return isinstance(later, Exception)
    return rounded(losses) == rounded(later)


def digest_of(candidates: Sequence[Candidate], default: int | None, loss: str | NamedLoss) -> str:
    """Return a fingerprint of what a search proposes, in any order: other public rows rank it differently."""
    keys = [key_of(each.parameters) for each in candidates]
    proposed = json.dumps([sorted(keys), None if default is None else keys[default], as_loss(loss).name])
    lasting = re.sub(r" at 0x[0-9a-f]+", "", proposed)  # addresses differ between processes
    return hashlib.sha256(lasting.encode()).hexdigest()[:16]
