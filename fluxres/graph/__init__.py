"""Pools as columns: the containment tree, the auxiliary graphs over it, and the operations on their structure.

Nothing here knows about jobs or time.  A :class:`~fluxres.graph.structure.Structure` is one generation of a machine; an
operation that changes the shape of the machine returns a new one.
"""
