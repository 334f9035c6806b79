"""All numbers of a text, in their order."""

import re

import pytest


def numbers(text: object) -> list[float]:
    """Numbers of a text, in their order; 95% is 95, and dates and versions are left out."""
    words = re.sub(
        r"\d{4}-\d\d-\d\d[\dT:+]*|\d+\.\d+\.\d+|'[^']*'|mu\^2|\([^()]*arXiv[^()]*\)|\(Dong[^)]*\)", "", str(text)
    )
    return [float(each) for each in re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?", words)]


def holds(text: object, *wanted: float) -> None:
    """Compare all numbers of a text with these: at least three digits are printed."""
    assert numbers(text) == pytest.approx(list(wanted), rel=6e-3, abs=1e-9), text
