"""Write CSV (RFC 4180): a table of pools for spreadsheets and data frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fluxres.formats import left_out
from fluxres.formats.loaded import Hold, Output
from fluxres.formats.pool_texts import PoolTexts, blocks, by_kind
from fluxres.formats.tables import columns as table_columns
from fluxres.graph.kinds import EXCLUSIVE, STATES, Kind
from fluxres.graph.structure import Structure


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as a table; `name` is that of its root and appears in the paths.

    Cost: about 1.5 µs per pool.
    """
    lost = left_out.lines(structure, allocations, table_columns.CARRIES, within=table_columns.within(structure))
    if name is not None and name != structure.name(0):
        lost.append(f"names: of the machine, {name!r}, which is not that of its root")
    head = ",".join(table_columns.COLUMNS) + "\r\n"
    return Output(b"".join([head.encode(), *_rows(structure)]), lost)


def quoted(text: str) -> str:
    """A text as one field, quoted if necessary.

    >>> print(quoted("a"), quoted("a,b"))
    a "a,b"
    """
    if any(character in text for character in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


def _rows(structure: Structure) -> Iterator[bytes]:
    def sort(kind: Kind) -> tuple[str, str, str]:
        front = f"{quoted(kind.type)},{quoted(kind.basename)}"
        return front, quoted(kind.unit or ""), quoted(table_columns.properties_text(kind))

    texts, sorts = PoolTexts(structure), by_kind(structure, sort, ("", "", ""))
    tags = {v: quoted(text) for v, text in table_columns.tags_texts(structure).items()}
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
