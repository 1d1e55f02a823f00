"""Instances and jobs as processes: what a simulation only plays, done for real on the machine this runs on.

A hierarchy is a tree of processes.  Each has an instance on its own copy of what its parent gave it, read from its parent's
store; parents and children talk in JSON lines over two pipes.  specs/hierarchy.md says what is guaranteed when any of them
dies.  Linux only: it relies on pidfds, parent-death signals and /proc.
"""

from __future__ import annotations
