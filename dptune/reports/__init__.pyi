"""The names of this room, and where each is defined."""

from dptune.reports.metric import Metric as Metric
from dptune.reports.reporting import report as report
from dptune.reports.reporting import stored_report as stored_report
from dptune.reports.result import Report as Report
