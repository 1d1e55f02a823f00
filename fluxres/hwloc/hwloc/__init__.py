"""The low-level modules of pyhwloc, with their errors, constants and structures.

Their functions that take pointers are left out; the classes of :mod:`fluxres.hwloc` do the same safely.
"""
