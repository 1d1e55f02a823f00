"""The queue policies that random courses choose from, with settings that take effect within minutes."""

from __future__ import annotations

POLICIES = (
    "fcfs",
    "easy",
    "easy-count",
    "easy-sjbf",
    "hybrid:depth=3",
    "conservative",
    "priority:recalculate-s=7,age-max-s=60,size=50000",
    "fairshare:recalculate-s=5,half-life-s=30",
    "easy:queue-depth=4",
)
