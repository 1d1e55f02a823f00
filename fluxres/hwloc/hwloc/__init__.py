"""The names of pyhwloc's lower modules that programs need beside its interface: errors, numbers and layouts of memory.

Its functions over pointers are not here: what they do, the objects of :mod:`fluxres.hwloc` do safely.
"""
