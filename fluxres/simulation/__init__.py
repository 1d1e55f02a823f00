"""Workloads run on instances by a clock of their own (specs/instances.md)."""
