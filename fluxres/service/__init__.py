"""The HTTP service: one process that many schedulers share, and the client that has the methods of a local graph.

The server attaches itself to the graphs of a store; everything that it answers is what the commands print as JSON, so there is
one schema and not two. The client (`fluxres.service.client`) needs nothing but the standard library.
"""
