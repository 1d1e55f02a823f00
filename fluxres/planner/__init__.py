"""What is free when: pure, over vertex numbers, ticks and units; it knows nothing of jobs."""

from __future__ import annotations

from fluxres.planner.planner import Planner

__all__ = ["Planner"]
