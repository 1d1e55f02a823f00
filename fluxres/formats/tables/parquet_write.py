"""Write Parquet: a typed, dictionary-encoded table of pools for data frames of any size."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fluxres.errors import UsageError
from fluxres.formats import left_out
from fluxres.formats.loaded import Hold, Output
from fluxres.formats.pool_texts import PoolTexts, by_kind
from fluxres.formats.tables import columns as table_columns
from fluxres.graph.kinds import EXCLUSIVE, STATES
from fluxres.graph.structure import Structure

MAGIC: Final = b"PAR1"


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as a table; the metadata have its name as ``fluxres.name``.

    Errors: UsageError if pyarrow is not installed. Cost: about 1 µs per pool.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        hint = "pip install 'fluxres[parquet]', or use csv"
        raise UsageError("parquet needs pyarrow, which is not installed", hint=hint) from None
    table = pyarrow.table(_columns(structure, pyarrow))
    machine = name if name is not None else structure.name(0)
    buffer = io.BytesIO()
    parquet.write_table(table.replace_schema_metadata({"fluxres.name": machine}), buffer, compression="zstd")
    lost = left_out.lines(structure, allocations, table_columns.CARRIES, within=table_columns.within(structure))
    return Output(buffer.getvalue(), lost)


def _columns(structure: Structure, pyarrow: Any) -> dict[str, Any]:
    end = structure.tree_end
    kind, texts = structure.kind[:end], PoolTexts(structure)

    def of_kind(values: list[str | None]) -> Any:
        """A column of words by number of the kind; missing ones are null."""
        words = {word: i for i, word in enumerate(dict.fromkeys(word for word in values if word is not None))}
        index = np.array([-1 if word is None else words[word] for word in values], np.int32)[kind]
        return pyarrow.DictionaryArray.from_arrays(
            pyarrow.array(index, mask=index < 0), pyarrow.array(list(words), pyarrow.string())
        )

    tags = table_columns.tags_texts(structure)
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
        "properties": of_kind(by_kind(structure, lambda kind: table_columns.properties_text(kind) or None, None)),
        "tags": pyarrow.array([tags.get(v) for v in range(end)] if tags else [None] * end, pyarrow.string()),
    }
    return {column: columns[column] for column in table_columns.COLUMNS}
