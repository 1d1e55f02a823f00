"""Rule S1 for any format: a written and re-read machine is equal, except for what the writer reports as left out.

    round_trip(structure, "jgf")

Everything that `left_out` names is removed from both machines before they are compared, so an unreported difference is found, and
so is a fact that is reported although it was read back.  Written a second time, the file has the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fluxres.formats import registry
from fluxres.formats.format import FACTS, Fact, Hold, Loaded, Reserved
from fluxres.graph.audit import check_structure
from fluxres.graph.compare import equal
from fluxres.graph.kinds import Kind, KindTable
from fluxres.graph.structure import Problem, Structure
from fluxres.graph.surgery import duplicate, extract_many
from tests.formats.fluxion_reader import Fluxion

ORIGIN = 8 << 76 | 2 << 62


def facts_of(left_out: Sequence[str]) -> set[Fact]:
    """The facts that lines of `left_out` begin with; each line must begin with one."""
    words = [line.partition(":")[0] for line in left_out]
    assert set(words) <= set(FACTS), left_out
    return {fact for fact in FACTS if fact in words}


def forget(structure: Structure, facts: set[Fact]) -> Structure:
    """The structure without these facts.  Names that follow from ids or ranks go with them."""
    made = duplicate(structure)
    if "graphs" in facts:
        made.subsystems.clear()
        if made.tree_end < made.n:
            made = extract_many(made, np.arange(made.n) < made.tree_end)[0]
            made.flags[:] = structure.flags[: made.n]
    names = bool(facts & {"names", "ids", "basenames", "ranks", "units", "properties"})
    if names:
        made.names.clear()
    for fact, column, value in (("ids", "id", -1), ("sizes", "size", 1), ("states", "state", 0), ("ranks", "rank", -1)):
        if fact in facts:
            getattr(made, column)[:] = value
    if "exclusive" in facts:
        made.flags &= ~np.uint8(1)
    if "capacities" in facts:
        made.flags &= ~np.uint8(2)
        made.capacity.clear()
    if "tags" in facts:
        made.tags.clear()
    table = KindTable()
    kept = [
        table.intern(
            Kind(
                kind.type,
                kind.type if "basenames" in facts else kind.basename,
                None if "units" in facts else kind.unit,
                None if names else kind.name,
                () if "properties" in facts else kind.properties,
            )
        )
        for kind in made.kinds
    ]
    return Structure(
        {**made.columns(), "kind": np.array(kept, np.int32)[made.kind]},
        table,
        origins=made.origins,
        names=made.names,
        uuid_texts=made.uuid_texts,
        tags=made.tags,
        capacity=made.capacity,
        subsystems=made.subsystems,
        tree_end=made.tree_end,
    )


def differences(a: Structure, b: Structure, left_out: set[Fact]) -> list[str]:
    """Differences other than what was left out."""
    return equal(forget(a, left_out), forget(b, left_out), uuids="uuids" not in left_out)


def errors(structure: Structure) -> list[Problem]:
    """Violations of rules."""
    return [problem for problem in check_structure(structure) if problem.severity == "error"]


def round_trip(
    structure: Structure,
    format: str,
    allocations: Sequence[Hold] = (),
    *,
    reservations: Sequence[Reserved] = (),
    name: str | None = None,
    project: Callable[[Structure], Structure] | None = None,
    **options: Any,
) -> Loaded:
    """Write, read, compare, write again.

    Args:
        name: of the machine; that of its root by default.
        project: for a format that does not contain all pools, the machine that it describes.
    """
    name = structure.name(0) if name is None else name
    written = registry.write(structure, allocations, reservations=reservations, name=name, format=format, **options)
    detected = registry.detect(written.data)
    assert detected is not None
    assert detected.name == format, f"{format} is taken for {detected.name}"
    if format == "jgf":
        Fluxion.load(json.loads(written.data))
    loaded = registry.read(written.data, origin=ORIGIN)
    if not errors(structure):
        assert errors(loaded.structure) == []
    facts = facts_of(written.left_out)
    expected = structure if project is None else project(structure)
    if "pools" not in facts or project is not None:
        assert differences(expected, loaded.structure, facts) == [], written.left_out
        for fact in facts - {"uuids", "allocations", "reservations", "pools"}:
            assert differences(expected, loaded.structure, facts - {fact}), f"{fact} came back"
        if "allocations" not in facts and project is None:
            assert loaded.allocations == list(allocations)
        if "reservations" not in facts:
            assert list(loaded.reservations) == list(reservations)
    held = loaded.allocations, loaded.reservations
    again = registry.write(loaded.structure, held[0], reservations=held[1], name=loaded.name, format=format, **options)
    assert again.data == written.data
    assert facts_of(again.left_out) <= facts
    return loaded
