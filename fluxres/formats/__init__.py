"""File formats, text ↔ structure, detected from the content (:mod:`fluxres.formats.registry`).

`cluster` is the format for people. Each other format is a module and an entry in the registry.
"""
