"""Workloads run on instances in simulated time (specs/simulation.md)."""
