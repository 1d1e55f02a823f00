"""Workloads: formats, models, resampling, models of estimates; jobs made adaptive, and closed loops."""
