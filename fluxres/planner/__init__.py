"""What is free when.  Pure functions of vertex numbers, ticks and units; nothing here knows about jobs."""

from __future__ import annotations

from fluxres.planner.planner import Planner

__all__ = ["Planner"]
