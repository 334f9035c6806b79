"""The names of this room, and where each is defined."""

from dptune.choice.report.result import Report as Report
