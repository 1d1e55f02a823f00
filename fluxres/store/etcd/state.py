"""What a transaction knows of the store without reading its contents: the head, the documents of the graphs, the notes."""

from __future__ import annotations

from typing import Final

import msgspec

from fluxres.errors import StoreError
from fluxres.store.contents import GraphRow, Part
from fluxres.store.encoding import way_out
from fluxres.store.etcd import wire
from fluxres.store.etcd.client import Client
from fluxres.store.etcd.keys import Keys, end

VERSION: Final = 1


class Head(msgspec.Struct, frozen=True):
    """The key that every commit rewrites.

    Args:
        fluxres: ``store``.
        version: of what is stored.
        graphs, tickets: the last numbers that were given.
        commit: a random text, by which a writer finds whether a commit that was interrupted was made.
    """

    fluxres: str
    version: int
    graphs: int = 0
    tickets: int = 0
    commit: str = ""


class BlobPlace(msgspec.Struct, frozen=True):
    """Where a part of a snapshot is.

    Args:
        generation: of its keys; no two blobs have the same.
        seq: number of the event that it follows.
        size: in bytes.
        tail: its last 16 bytes.
        keys: number of its keys.
    """

    generation: str
    seq: int
    size: int
    tail: bytes
    keys: int


class PreviousPlace(msgspec.Struct, frozen=True):
    """The state before the last change, as :class:`fluxres.store.contents.Previous`, with the places of its blobs."""

    before: int
    after: int
    snapshot_seq: int
    blobs: dict[Part, BlobPlace]


class Document(msgspec.Struct, frozen=True):
    """What is stored of a graph apart from its contents.

    Args:
        row: of the graph.
        blobs: the parts of its snapshot.
        previous: the state before its last change, if it was kept.
        first: number of the oldest event in the journal; 0 for none.
        log_bytes: of the bodies of all events.
    """

    row: GraphRow
    blobs: dict[Part, BlobPlace] = msgspec.field(default_factory=dict)
    previous: PreviousPlace | None = None
    first: int = 0
    log_bytes: int = 0

    def generations(self) -> set[str]:
        """Of all blobs to which it refers."""
        found = [*self.blobs.values(), *(self.previous.blobs.values() if self.previous else ())]
        return {place.generation for place in found}


class State(msgspec.Struct, frozen=True):
    """A state of the store.

    Args:
        revision: of etcd.
        changed_at: the revision of the commit that made it; 0 if there is no store.
        head: of the store.
        documents, notes: by number, and by key.
    """

    revision: int
    changed_at: int
    head: Head
    documents: dict[int, Document]
    notes: dict[str, str]

    def generations(self, graph: int) -> set[str]:
        document = self.documents.get(graph)
        return document.generations() if document is not None else set()

    def seq(self, graph: int) -> int:
        """The number of the last event of a graph."""
        document = self.documents.get(graph)
        return document.row.seq if document is not None else 0


def read(client: Client, keys: Keys) -> State:
    """The present state, by one request.

    Errors: StoreError for damage, and for a store of another version.
    """
    found = client.call("/v3/kv/range", {"key": keys.state, "range_end": end(keys.state)}, wire.Found)
    changed_at, head, documents, notes = 0, Head("store", VERSION), dict[int, Document](), dict[str, str]()
    for kv in found.kvs:
        if kv.key == keys.head:
            changed_at, head = kv.mod_revision, head_of(kv.value, client.url)
        elif kv.key.startswith(keys.graphs):
            document = _document(kv.value, client.url)
            documents[document.row.number] = document
        else:
            notes[kv.key.removeprefix(keys.notes).decode("utf-8", "replace")] = kv.value.decode("utf-8", "replace")
    return State(found.header.revision, changed_at, head, documents, notes)


def head_of(value: bytes, url: str) -> Head:
    """Errors: StoreError for one of another version."""
    try:
        head = msgspec.json.decode(value, type=Head)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        head = Head("", 0)
    if head.fluxres != "store":
        raise StoreError("another program uses this prefix", where=url, hint="give the store a prefix of its own")
    if head.version != VERSION:
        said = f"has version {head.version}, but this fluxres supports only version {VERSION}"
        raise StoreError(said, where=url, hint=way_out(head.version, VERSION))
    return head


def _document(value: bytes, url: str) -> Document:
    try:
        return msgspec.json.decode(value, type=Document)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        hint = "restore a backup (see fluxres help stores)"
        raise StoreError("its list of graphs is invalid", where=url, hint=hint) from None
