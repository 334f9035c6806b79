"""The names of this room, and where each is defined."""

from dptune.search.answer import Estimate as Estimate
from dptune.search.mlflow import log_to_mlflow as log_to_mlflow
from dptune.search.request import drive as drive
from dptune.search.run import SearchRun as SearchRun
