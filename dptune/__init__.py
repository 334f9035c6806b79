"""Differentially private hyperparameter tuning.

An algorithm never sees private data: it only sends queries. One trusted object, :class:`LossPrivatizer`, charges a
:class:`PrivacyLedger` and then answers with noise. Without a trusted party, each user's device adds noise itself with a
:class:`dptune.local.LocalRandomizer`.

Import common names from here and everything else from a subpackage such as :mod:`dptune.training`, :mod:`dptune.local`
or :mod:`dptune.federated`. The names are listed in ``__init__.pyi``.
"""

from dptune._exports import exports

__version__ = "0.2.0"
__all__, __getattr__, __dir__ = exports(__name__, __file__)
