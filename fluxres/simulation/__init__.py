"""Workloads run on instances in simulated time (specs/instances.md)."""
