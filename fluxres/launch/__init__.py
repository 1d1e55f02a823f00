"""Programs inside allocations (`fluxres run`), and instances and jobs as processes: what the simulator simulates, run for real.

A hierarchy is a tree of processes. Each has an instance with its own copy of what its parent allocated to it, read from its
parent's store. Parents and children exchange JSON lines over two pipes. specs/hierarchy.md says what is guaranteed if any of them
dies. Linux only: this relies on pidfds, parent-death signals and /proc.
"""

from __future__ import annotations
