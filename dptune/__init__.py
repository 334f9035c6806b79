"""Differentially private hyperparameter tuning.

An algorithm never sees private data: it says where to look and what it wants to know, and one trusted
object, :class:`LossPrivatizer`, answers with noise after paying in a :class:`PrivacyLedger`. Where nobody is
trusted, a user's device answers itself with a :class:`dptune.local.LocalRandomizer`.

What a user needs on the first day is here; the rest is in the rooms: :mod:`dptune.training`,
:mod:`dptune.local`, :mod:`dptune.federated`, ... The names are listed in ``__init__.pyi``.
"""

from dptune._exports import exports

__version__ = "0.2.0"
__all__, __getattr__, __dir__ = exports(__name__, __file__)
