"""A place in a JSON or YAML document of Slurm."""

from __future__ import annotations

from fluxres.documents.document import Document, Key


class Place:
    """A place in a document, computed only when needed, because finding it reads the text again."""

    def __init__(self, document: Document, path: tuple[Key, ...]) -> None:
        self._document, self._path = document, path

    def __str__(self) -> str:
        return self._document.where(self._path)
