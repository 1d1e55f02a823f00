"""How many units of which pool are free when.  Knows vertex numbers, ticks and units, but not jobs."""

from __future__ import annotations

from fluxres.planner.planner import Planner

__all__ = ["Planner"]
