"""The cases of Optuna's conformance suite that are audits."""

from collections import Counter

import pytest

PAIRS = {"test_sample_relative_numerical", "test_combination_of_different_distributions_objective"}


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    """Of six by six pairs of distributions, each sampler has six that hold every one of both; the others are audits."""
    met = Counter[str]()
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname in PAIRS and "sampler_suite" in item.nodeid:
            i = met[item.originalname]
            met[item.originalname] += 1
            if (i // 36 + i // 6 + i) % 6:
                item.add_marker(pytest.mark.slow)
