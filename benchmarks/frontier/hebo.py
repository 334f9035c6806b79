"""HEBO, a search on values: Cowen-Rivers et al., arXiv 2012.03826, as its authors' package has it.

A Gaussian process on warped points and values, and a front of three acquisition functions. The package asks for a NumPy
that no other here runs with, and runs with today's:

    python -m pip install torch==2.13.0 pandas
    python -m pip install --no-deps HEBO==0.3.6 gpytorch linear_operator jaxtyping wadler_lindig pymoo moocore \
        autograd alive_progress about_time grapheme cma dill disjoint_set Deprecated wrapt mpmath
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.frontier.tasks import FrontierTask


def hebo(value: Callable[[Any], float], task: FrontierTask, trials: int, seed: int) -> None:
    """Evaluate ``value`` at the start, then at HEBO's proposals; numbers only."""
    import pandas as pd
    import torch
    from hebo.design_space.design_space import DesignSpace
    from hebo.optimizers.hebo import HEBO

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    np.random.seed(seed)  # its evolution draws from these two
    names = [f"u{j:02}" for j in range(task.space.d)]
    cube = DesignSpace().parse([{"name": name, "type": "num", "lb": 0.0, "ub": 1.0} for name in names])
    search = HEBO(cube, scramble_seed=seed)
    asked = pd.DataFrame([task.space.encode(task.start)], columns=names)
    for trial in range(trials):
        if trial:
            asked = search.suggest(1)
        point = asked[names].to_numpy(dtype=float)[0]
        search.observe(asked, np.array([[value(task.space.decode(point))]]))
