"""Write a table of pools: CSV (RFC 4180) for spreadsheets, Parquet for data frames of any size.

There is one row per pool of the containment tree, in tree order. A table has no edges, so auxiliary graphs and the pools that are
only in them are left out; the path shows containment.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from fluxres.arrays import Mask
from fluxres.errors import UsageError
from fluxres.formats import losses
from fluxres.formats.format import ALL, Fact, Hold, Output
from fluxres.formats.pool_texts import PoolTexts, blocks, by_kind
from fluxres.graph.kinds import EXCLUSIVE, STATES, Kind
from fluxres.graph.structure import Structure

CARRIES: Final[frozenset[Fact]] = ALL - {"graphs", "capacities", "allocations"}
COLUMNS: Final = (
    *("path", "type", "basename", "name", "id", "rank", "size", "unit", "state", "exclusive"),
    *("uuid", "properties", "tags"),
)


def properties_text(kind: Kind) -> str:
    """The properties of a kind as JSON; empty if it has none.

    >>> properties_text(Kind("node", "node", properties=(("class", 3), ("ssd", None))))
    '{"class":3,"ssd":null}'
    """
    return json.dumps(dict(kind.properties), ensure_ascii=False, separators=(",", ":")) if kind.properties else ""


def tags_texts(structure: Structure) -> dict[int, str]:
    """The tags of pools that have some, as JSON, by vertex."""
    return {
        v: json.dumps(dict(sorted(tags.items())), ensure_ascii=False, separators=(",", ":"))
        for v, tags in structure.tags.items()
        if tags
    }


def within(structure: Structure) -> Mask:
    """Which pools have a row."""
    return np.arange(structure.n) < structure.tree_end


def write_csv(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as a table; `name` is that of its root and appears in the paths. Cost: about 1.5 µs per pool."""
    lost = losses.lines(structure, allocations, CARRIES, within=within(structure))
    if name is not None and name != structure.name(0):
        lost.append(f"names: of the machine, {name!r}, which is not that of its root")
    head = ",".join(COLUMNS) + "\r\n"
    return Output(b"".join([head.encode(), *_csv_rows(structure)]), lost)


def quoted(text: str) -> str:
    """A text as one field, quoted if necessary.

    >>> print(quoted("a"), quoted("a,b"))
    a "a,b"
    """
    if any(character in text for character in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _csv_rows(structure: Structure) -> Iterator[bytes]:
    def sort(kind: Kind) -> tuple[str, str, str]:
        front = f"{quoted(kind.type)},{quoted(kind.basename)}"
        return front, quoted(kind.unit or ""), quoted(properties_text(kind))

    texts, sorts = PoolTexts(structure), by_kind(structure, sort, ("", "", ""))
    tags = {v: quoted(text) for v, text in tags_texts(structure).items()}
    exclusive = ((structure.flags & EXCLUSIVE) != 0).tolist()
    # Hardly any name needs quotes, so check all of them at once.
    joined = "\0".join(texts.names)
    plain = not any(character in joined for character in ',"\r\n \t\f\v\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029')
    names = texts.names if plain else [quoted(text) for text in texts.names]
    paths = texts.paths if plain else [quoted(text) for text in texts.paths]
    ids = texts.uuids if not structure.uuid_texts else [quoted(text) for text in texts.uuids]
    words = ("false", "true")
    for part in blocks(structure.tree_end):
        columns = (structure.kind, structure.id, structure.rank, structure.size, structure.state)
        rows = zip(range(part.start, part.stop), *(column[part].tolist() for column in columns), strict=True)
        yield "".join(
            [
                f"{paths[v]},{sorts[kind][0]},{names[v]},{number if number >= 0 else ''},{rank if rank >= 0 else ''},{size},"
                f"{sorts[kind][1]},{STATES[state]},{words[exclusive[v]]},{ids[v]},{sorts[kind][2]},{tags.get(v, '')}\r\n"
                for v, kind, number, rank, size, state in rows
            ]
        ).encode()


def write_parquet(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as a table; the metadata have its name as ``fluxres.name``.

    Errors: UsageError if pyarrow is not installed. Cost: about 1 µs per pool.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        hint = "pip install pyarrow, or use csv"
        raise UsageError("parquet needs pyarrow, which is not installed", hint=hint) from None
    table = pyarrow.table(_parquet_columns(structure, pyarrow))
    machine = name if name is not None else structure.name(0)
    buffer = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({"fluxres.name": machine}), buffer, compression="zstd")
    lost = losses.lines(structure, allocations, CARRIES, within=within(structure))
    return Output(buffer.getvalue(), lost)


def _parquet_columns(structure: Structure, pyarrow: Any) -> dict[str, Any]:
    end = structure.tree_end
    kind, texts = structure.kind[:end], PoolTexts(structure)

    def of_kind(values: list[str | None]) -> Any:
        """A column of words by number of the kind; missing ones are null."""
        words = {word: i for i, word in enumerate(dict.fromkeys(word for word in values if word is not None))}
        index = np.array([-1 if word is None else words[word] for word in values], np.int32)[kind]
        return pyarrow.DictionaryArray.from_arrays(
            pyarrow.array(index, mask=index < 0), pyarrow.array(list(words), pyarrow.string())
        )

    tags = tags_texts(structure)
    number, rank = structure.id[:end], structure.rank[:end]
    states = pyarrow.DictionaryArray.from_arrays(pyarrow.array(structure.state[:end].astype(np.int32)), list(STATES))
    columns = {
        "path": pyarrow.array(texts.paths[:end], pyarrow.string()),
        "type": of_kind(by_kind(structure, lambda kind: kind.type, None)),
        "basename": of_kind(by_kind(structure, lambda kind: kind.basename, None)),
        "name": pyarrow.array(texts.names[:end], pyarrow.string()),
        "id": pyarrow.array(number, mask=number < 0),
        "rank": pyarrow.array(rank, mask=rank < 0),
        "size": pyarrow.array(structure.size[:end]),
        "unit": of_kind(by_kind(structure, lambda kind: kind.unit, None)),
        "state": states,
        "exclusive": pyarrow.array((structure.flags[:end] & EXCLUSIVE) != 0),
        "uuid": pyarrow.array(texts.uuids[:end], pyarrow.string()),
        "properties": of_kind(by_kind(structure, lambda kind: properties_text(kind) or None, None)),
        "tags": pyarrow.array([tags.get(v) for v in range(end)] if tags else [None] * end, pyarrow.string()),
    }
    return {column: columns[column] for column in COLUMNS}
