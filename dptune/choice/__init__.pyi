"""The names of this room, and where each is defined."""

from dptune.choice.report.metric import Metric as Metric
from dptune.choice.report.reporting import stored_report as stored_report
from dptune.choice.report.result import Report as Report
