"""Includes and parts of ``cluster.yaml``: the entry that a part's name denotes, and where each key was written.

An entry that uses a part is a stack of layers with its own keys on top. Nothing is copied, so a message about an inherited key
points into the file that has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UNSET

from fluxres import limits
from fluxres.documents import typed, yaml_document
from fluxres.documents.document import Document, Key
from fluxres.errors import InputError, LimitExceeded
from fluxres.formats.cluster.schema import Cluster, Resource


@dataclass(slots=True, eq=False)
class Layer:
    """A resource as written in a document."""

    resource: Resource
    document: Document
    path: tuple[Key, ...]

    def where(self, *more: Key, key: bool = False) -> str:
        """``file:line:column: path`` of this entry or of a key in it."""
        return self.document.where((*self.path, *more), key=key)


class Entry:
    """A resource with the parts it uses: the value of a key is that of the first layer that has it."""

    __slots__ = ("layers", "parts")

    def __init__(self, layers: list[Layer], parts: tuple[str, ...]) -> None:
        self.layers = layers
        #: names of the parts that were expanded to get here, including those of enclosing entries
        self.parts = parts

    def get(self, key: str) -> Any:
        """The value of a key, UNSET when no layer has it."""
        for layer in self.layers:
            value = getattr(layer.resource, key)
            if value is not UNSET:
                return value
        return UNSET

    def layer(self, key: str) -> Layer:
        """The layer that a key comes from; the entry itself if no layer has it."""
        return next((layer for layer in self.layers if getattr(layer.resource, key) is not UNSET), self.layers[0])

    def where(self, key: str = "") -> str:
        """The place of the value of a key, or of the entry."""
        layer = self.layer(key) if key else self.layers[0]
        return layer.where(key.rstrip("_")) if key else layer.where()


class Parts:
    """All parts a document can use: its own and, recursively, those of the files it includes.

    Errors: InputError for a part that is defined twice, a file that includes itself or cannot be read; LimitExceeded for includes
    deeper than INCLUDE_DEPTH_MAX.
    """

    def __init__(self, document: Document, cluster: Cluster) -> None:
        self._parts: dict[str, Layer] = {}
        self._read: set[Path] = set()
        self._collect(document, cluster, [] if document.path is None else [document.path.resolve()])

    def _collect(self, document: Document, cluster: Cluster, chain: list[Path]) -> None:
        for i, name in enumerate(cluster.include or ()):
            path = self._included(document, name, i, chain)
            if path in self._read:
                continue
            self._read.add(path)
            inner = yaml_document.load(path, file=str(self._folder(document) / name))
            parts = typed.convert(inner, Cluster)
            for key in ("resources", "root", "pools", "graphs", "allocations", "uuids"):
                if getattr(parts, key) is not UNSET:
                    message = f"an included file may only have parts, but this one has {key!r}"
                    raise InputError(message, where=inner.where([key], key=True), hint="move it to the file that includes it")
            self._collect(inner, parts, [*chain, path])
        for name, part in (cluster.parts or {}).items():
            known = self._parts.get(name)
            if known is not None:
                message = f"the part {name!r} is also defined in {known.document.file}"
                raise InputError(message, where=document.where(["parts", name], key=True), hint="rename one")
            self._parts[name] = Layer(part, document, ("parts", name))

    def _included(self, document: Document, name: str, i: int, chain: list[Path]) -> Path:
        def where() -> str:
            return document.where(["include", i])

        if document.path is None:
            raise InputError("only a document loaded from a file can include files", where=where(), hint="load it from a file")
        try:
            path = (self._folder(document) / name).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(f"cannot include {name!r}: {error}", where=where()) from None
        if path in chain:
            raise InputError(
                f"{name!r} includes itself, directly or through others", where=where(), hint="remove one of the includes"
            )
        if len(chain) >= limits.INCLUDE_DEPTH_MAX:
            raise LimitExceeded(f"includes are more than {limits.INCLUDE_DEPTH_MAX} files deep", where=where())
        if not path.exists():
            raise InputError(f"no file {name!r} to include", where=where(), hint=f"paths start at {self._folder(document)}")
        return path

    @staticmethod
    def _folder(document: Document) -> Path:
        return Path() if document.path is None else document.path.parent

    def entry(self, layer: Layer, around: tuple[str, ...] = ()) -> Entry:
        """An entry with the parts that it uses.

        Args:
            around: parts in which it is nested; using one of them again would never end.
        """
        layers = [layer]
        while (name := layers[-1].resource.use) is not UNSET:
            part = self._parts.get(name)
            if part is None:
                hint = typed.nearest(name, list(self._parts)) if self._parts else "there are no parts"
                raise InputError(f"no part {name!r}", where=layers[-1].where("use"), hint=hint)
            if name in around:
                raise InputError(f"the part {name!r} contains itself", where=layers[-1].where("use"), hint="remove the recursion")
            around = (*around, name)
            layers.append(part)
        return Entry(layers, around)
