"""Which pools satisfy a request: request × graph × time → Placement.  Pure: reads no clock or file and changes no records."""

from __future__ import annotations

from fluxres.match.matcher import Matcher
from fluxres.match.policy import Policy, policy
from fluxres.match.result import Placement, SlotGroup

__all__ = ["Matcher", "Placement", "Policy", "SlotGroup", "policy"]
