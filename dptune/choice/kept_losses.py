"""Public losses in files next to the ledger: a killed choice continues, and a repeated call trains almost nothing.

They are files of a folder, ``<ledger>.public``, which may be deleted at any time: functions of public rows, and nothing
of a private one. A file's name is a digest of the training, its rows, settings and configuration. Before files are
used, one of their configurations is cross-validated again: if its losses differ, none of the files is used.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dptune._checks import attempt
from dptune.choice.crossval import Answers, FoldAnswers, as_losses
from dptune.choice.fingerprint import fingerprint
from dptune.choice.public import rounded
from dptune.losses.named import NamedLoss

Evaluated = npt.ArrayLike | Answers | Exception


class _UnkeptLosses(npt.NDArray[np.float64]):
    """Losses of a model that was loaded."""


class _UnkeptAnswers(list[FoldAnswers]):
    """Answers of a model that was loaded."""


def unkept(one: npt.NDArray[np.float64] | Answers) -> npt.NDArray[np.float64] | Answers:
    """Return losses that no file keeps: a checkpoint may change, and no code or configuration shows it."""
    return _UnkeptAnswers(one) if isinstance(one, list) else one.view(_UnkeptLosses)


class KeptLosses:
    """Public losses, or answers of models, by a digest of what they depend on.

    Args:
        ledger: its file says where the folder is. Of a ledger on a server, or in memory, nothing is kept.
        loss: whose they are.
        evidence: what all losses depend on, and what each candidate's depend on in addition; None: nothing is kept.
    """

    def __init__(self, ledger: Any, loss: NamedLoss, evidence: tuple[object, Sequence[object]] | None) -> None:
        self._loss = loss
        url = getattr(ledger, "url", None)
        in_file = url is not None and url.get_backend_name() == "sqlite" and url.database not in (None, "", ":memory:")
        self._folder = Path(f"{url.database}.public") if in_file and url is not None else None
        shared, own = evidence or (None, ())
        common = None if self._folder is None or evidence is None else fingerprint(loss, shared)
        digests = [None if common is None else fingerprint(common, each) for each in own]
        self._names = [None if each is None else f"{each[:40]}.npz" for each in digests]

    def evaluated(
        self, m: int, first: int, train: Callable[[Sequence[int]], Iterable[Evaluated]], say: Callable[[str], object]
    ) -> tuple[list[Evaluated], int, Evaluated]:
        """Return the losses of m candidates, and the place and the second losses of one that was evaluated twice.

        Args:
            first: the place of the candidate that is evaluated twice, if it is not missing among kept ones.
            train: places -> their losses, in this order.
            say: prints a public line.
        """
        found = [self._read(place) for place in range(m)]
        known = [place for place in range(m) if found[place] is not None]
        if not known:
            *evaluated, again = self._trained([*range(m), first], train)
            return evaluated, first, again
        twice = first if first in known else known[0]
        (again,) = train([twice])
        if not self._same(found[twice], again):
            say(
                f"{self._folder} has other public losses of a configuration that was trained again: the code, the rows "
                "or a seed differ. This is another choice. All configurations are trained."
            )
            known, found = [], [None] * m
        elif len(known) < m:
            say(f"{self._folder} has the public losses of {len(known)} of {m} configurations: they are not trained.")
        missing = [place for place in range(m) if place not in known]
        for place, one in zip(missing, self._trained(missing, train), strict=True):
            found[place] = one
        return [one for one in found if one is not None], twice, again

    def _trained(
        self, places: Sequence[int], train: Callable[[Sequence[int]], Iterable[Evaluated]]
    ) -> Iterable[Evaluated]:
        for place, one in zip(places, train(places) if places else (), strict=True):
            self._write(place, one)
            yield one

    def _same(self, kept: Any, again: Evaluated) -> bool:
        if isinstance(again, Exception):
            return False
        one, other = as_losses([kept, again], self._loss)
        return rounded(one) == rounded(other)

    def _file(self, place: int) -> Path | None:
        name = self._names[place] if place < len(self._names) else None
        return None if self._folder is None or name is None else self._folder / name

    def _read(self, place: int) -> Evaluated | None:
        file = self._file(place)
        return None if file is None else attempt(_read, file, failed=None)

    def _write(self, place: int, one: Evaluated) -> None:
        file = self._file(place)
        if file is not None and not isinstance(one, Exception | _UnkeptLosses | _UnkeptAnswers):
            attempt(_write, file, one, failed=None)


def _write(file: Path, one: Any) -> None:
    arrays: dict[str, Any] = _arrays(one)
    if any(array.dtype.hasobject for array in arrays.values()):
        return
    file.parent.mkdir(exist_ok=True)
    part = file.with_suffix(f".{os.getpid()}.part")
    with part.open("wb") as stream:
        np.savez(stream, check=_check(arrays), **arrays)
    part.replace(file)


def _read(file: Path) -> Evaluated:
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    if arrays.pop("check").item() != _check(arrays).item():
        raise ValueError
    if "losses" in arrays:
        losses: npt.NDArray[np.float64] = arrays["losses"]
        return losses
    folds = range(sum(name.endswith("test") for name in arrays))
    return [
        FoldAnswers(
            arrays[f"{i} test"], arrays[f"{i} y"], arrays[f"{i} output"],
            arrays[f"{i} labels"].tolist() if f"{i} labels" in arrays else None,
        )
        for i in folds
    ]  # fmt: skip


def _arrays(one: Any) -> dict[str, npt.NDArray[Any]]:
    if isinstance(one, np.ndarray):
        return {"losses": one}
    arrays = {f"{i} {name}": part for i, fold in enumerate(one) for name, part in vars(fold).items()}
    return {name: np.asarray(part) for name, part in arrays.items() if part is not None}


def _check(arrays: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return a digest of the arrays: a file that was cut or changed is not used."""
    parts = (
        f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes() for name, array in sorted(arrays.items())
    )
    return np.array(hashlib.sha256(b"".join(parts)).hexdigest())
