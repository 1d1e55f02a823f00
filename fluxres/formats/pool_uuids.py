"""The uuids that a document gives its pools, one by one or in runs, stored as bases and serials."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from fluxres import limits
from fluxres.arrays import Int32
from fluxres.formats.format import Fail
from fluxres.graph import uuids
from fluxres.graph.identity import repeated, uuid_keys
from fluxres.graph.structure import Structure

_LENGTH: Final = 36
_BASE: Final = 24
_HEX: Final = np.full(128, -1, np.int64)
_HEX[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


def give_uuids(
    structure: Structure, vertex: Int32, given: Sequence[Any] | None, runs: Sequence[tuple[str, int]] | None, fail: Fail
) -> None:
    """Set the uuids given by a document.

    Args:
        vertex: vertex number by row of the document.
        given: uuid by row, UNSET where there is none; None if no row has one.
        runs: (first uuid, number of uuids that count up from it) over all rows.

    Errors: what `fail` raises for invalid runs, and for a uuid of two pools. Cost: O(rows) array operations for uuids of the
    standard form, O(1) Python for others.
    """
    if runs is not None:
        _runs(structure, vertex, runs, fail)
    if given is not None:
        _one_by_one(structure, vertex, given, fail)
    if runs is None and given is None:
        return
    again = repeated(*uuid_keys([structure]))
    if len(again):
        row = int(np.flatnonzero(vertex == again[0])[0])
        fail(["nodes", row], f"the uuid {structure.uuid(int(again[0]))} is also that of another node")


def _runs(structure: Structure, vertex: Int32, runs: Sequence[tuple[str, int]], fail: Fail) -> None:
    at = 0
    origins: dict[int, int] = {}
    for i, (text, count) in enumerate(runs):
        rows = vertex[at : at + count]
        if len(rows) < count:
            fail(["metadata", "uuids", i], f"more uuids than there are nodes ({len(vertex)})")
        parts = uuids.split(text)
        if parts is not None and uuids.text(*parts) == text and parts[1] + count - 1 <= uuids.SERIAL_MAX:
            structure.origin[rows] = origins.setdefault(parts[0], len(origins))
            structure.serial[rows] = np.arange(parts[1], parts[1] + count)
        elif count == 1:
            structure.uuid_texts[int(rows[0])] = text
            structure.serial[rows] = -1  # this uuid must not be found by base and serial
        else:
            fail(["metadata", "uuids", i], f"{text!r} is not a uuid from which {count} nodes can be numbered")
        at += count
        if len(origins) > limits.ORIGINS_MAX:
            fail(["metadata", "uuids", i], f"more than {limits.ORIGINS_MAX} bases of uuids")
    if at < len(vertex):
        fail(["metadata", "uuids"], f"{at} uuids for {len(vertex)} nodes")
    structure.origins[:] = list(origins) or structure.origins


def _one_by_one(structure: Structure, vertex: Int32, given: Sequence[Any], fail: Fail) -> None:
    rows = np.array([i for i, text in enumerate(given) if text is not UNSET], np.int64)
    texts: list[str] = [given[i] for i in rows.tolist()]
    standard = np.array([len(text) == _LENGTH and text.isascii() for text in texts], np.bool_)
    letters = np.frombuffer("".join([t for t, fits in zip(texts, standard, strict=True) if fits]).encode(), np.uint8)
    table = letters.reshape(-1, _LENGTH)
    digits = _HEX[table[:, _BASE:]]
    serial = (digits << np.arange(44, -4, -4)).sum(axis=1)
    bases, which = np.unique(np.ascontiguousarray(table[:, :_BASE]).view(f"S{_BASE}").ravel(), return_inverse=True)
    numbers = np.full(len(bases), -1, np.int64)
    origins = {base: i for i, base in enumerate(structure.origins)}
    for i, base in enumerate(bases.tolist()):
        text = base.decode() + "0" * 12
        parts = uuids.split(text)
        if parts is not None and uuids.text(*parts) == text and (parts[0] in origins or len(origins) < limits.ORIGINS_MAX):
            numbers[i] = origins.setdefault(parts[0], len(origins))
    regular = (digits >= 0).all(axis=1) & (numbers[which] >= 0)
    fitting = np.zeros(len(rows), np.bool_)
    fitting[np.flatnonzero(standard)[regular]] = True
    chosen = vertex[rows[fitting]]
    structure.origin[chosen] = numbers[which][regular]
    structure.serial[chosen] = serial[regular]
    for i in np.flatnonzero(~fitting).tolist():
        v = int(vertex[rows[i]])
        if not texts[i].isprintable():
            fail(["nodes", int(rows[i]), "metadata", "uuid"], f"{texts[i]!r} is not a uuid")
        structure.uuid_texts[v] = texts[i]
        structure.serial[v] = -1
    structure.origins[:] = list(origins)


def runs_of(structure: Structure, vertices: NDArray[Any]) -> list[list[Any]]:
    """The uuids of these pools as runs of (first uuid, number of uuids that count up from it).

    Cost: O(pools) array operations and O(runs) Python.
    """
    origin, serial = structure.origin[vertices], structure.serial[vertices]
    begins = np.ones(len(vertices), np.bool_)
    begins[1:] = (origin[1:] != origin[:-1]) | (serial[1:] != serial[:-1] + 1)
    if structure.uuid_texts:
        own = np.flatnonzero(np.isin(vertices, np.fromiter(structure.uuid_texts, np.int64, len(structure.uuid_texts))))
        begins[own] = True
        begins[np.minimum(own + 1, len(vertices) - 1)] = True
    first = np.flatnonzero(begins)
    counts = np.diff(first, append=len(vertices))
    return [[structure.uuid(int(vertices[i])), count] for i, count in zip(first.tolist(), counts.tolist(), strict=True)]
