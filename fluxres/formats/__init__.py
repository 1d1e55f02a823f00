"""File formats: text ↔ structure, found by content (:mod:`fluxres.formats.registry`).

`cluster` is the format for people; each other one is one module and one entry in the registry.
"""
