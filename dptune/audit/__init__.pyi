"""The names of this room, and where each is defined."""

from dptune.audit.evidence import lower_bound as lower_bound
from dptune.audit.own import Audit as Audit
from dptune.audit.own import Finding as Finding
