"""Where something stands in a JSON or YAML document of Slurm."""

from __future__ import annotations

from fluxres.documents.document import Document, Key


class Place:
    """A place in a document that is looked up when somebody asks: finding it reads the text once more."""

    def __init__(self, document: Document, path: tuple[Key, ...]) -> None:
        self._document, self._path = document, path

    def __str__(self) -> str:
        return self._document.where(self._path)
