"""Machines from Slurm's configuration and from its JSON."""
