"""A fixture that runs a test with every method."""

import pytest

from runs import KINDS, readable


@pytest.fixture(params=KINDS, ids=readable)
def kind(request):
    """Give every method in turn."""
    return request.param
