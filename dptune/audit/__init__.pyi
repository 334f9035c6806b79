"""The names of this room, and where each is defined."""

from dptune.audit.own import Audit as Audit
