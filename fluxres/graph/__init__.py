"""Pools as columns: the containment tree, the auxiliary graphs over it, and the operations on their structure.

Nothing here knows jobs or time.  A :class:`~fluxres.graph.structure.Structure` is one generation of a
machine; whoever changes its shape makes the next one.
"""
