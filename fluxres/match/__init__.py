"""Which pools answer a request: request × graph × time → Match. Pure: no clock, no file, no record changes here."""

from __future__ import annotations

from fluxres.match.matcher import Matcher
from fluxres.match.policy import Policy, policy
from fluxres.match.reasons import Refusal
from fluxres.match.result import Match, SlotGroup

__all__ = ["Match", "Matcher", "Policy", "Refusal", "SlotGroup", "policy"]
