"""The public names, and where each is defined: read by type checkers and by ``__init__``."""

from dptune_mlflow.callback import MLflowCallback as MLflowCallback
from dptune_mlflow.run import log_run as log_run
