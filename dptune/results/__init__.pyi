"""The public name of this package, and where it is defined."""

from dptune.results.estimate import Estimate as Estimate
