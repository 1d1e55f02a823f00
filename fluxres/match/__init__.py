"""Which pools satisfy a request: request × graph × time → Match.  Pure: reads no clock or file and changes no records."""

from __future__ import annotations

from fluxres.match.matcher import Matcher
from fluxres.match.policy import Policy, policy
from fluxres.match.reasons import Refusal
from fluxres.match.result import Match, SlotGroup

__all__ = ["Match", "Matcher", "Policy", "Refusal", "SlotGroup", "policy"]
