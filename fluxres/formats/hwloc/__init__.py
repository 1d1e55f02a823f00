"""Machines from hwloc topologies: files, and the local machine."""
