"""File formats, text ↔ structure, detected from the content (:mod:`fluxres.formats.registry`).

Each family has a folder.  A format is a reader, a writer, or both, and an entry in the registry.
"""
