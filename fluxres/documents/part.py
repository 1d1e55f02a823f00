"""A part of a document that is converted separately; messages have its place in the whole document."""

from __future__ import annotations

from collections.abc import Iterable

from fluxres.documents.document import Document, Key


class Part(Document):
    """A value of a document, or what remains of it after irrelevant keys were removed.

    >>> from fluxres.documents import yaml_document
    >>> whole = yaml_document.load(b"a: 1\\nb: [x, y]\\n")
    >>> Part(whole, ["y"], ("b",)).where([0])
    '<text>:2:5: b[0]'
    """

    def __init__(self, whole: Document, values: object, path: Iterable[Key]) -> None:
        super().__init__(values, whole.file, whole.text, whole.path, whole.is_json)
        self.whole, self.base = whole, tuple(path)

    def where(self, path: Iterable[Key], *, key: bool = False) -> str:
        """The place in the whole document of a path in this part."""
        return self.whole.where([*self.base, *path], key=key)
