"""What detection found, as text."""

from __future__ import annotations

from pathlib import Path

import fluxres
from fluxres.formats.format import Loaded
from fluxres.render.tree import branches, draw


def outline(loaded: Loaded) -> str:
    """The tree that ``fluxres show`` draws, below the cluster."""
    graph = fluxres.load(loaded._replace(notes=()))
    assert graph.check() == []
    return "\n".join(line.rstrip() for line in draw(graph, branches(graph))[1:])


def said(loaded: Loaded, root: Path) -> list[str]:
    """What was seen and where, without the place of the recorded tree."""
    return [line.removeprefix("this-machine: ").replace(str(root), "") for line in loaded.seen]


def notes(loaded: Loaded, root: Path) -> list[str]:
    """What was left out, without the place of the recorded tree."""
    return [line.replace(str(root), "") for line in loaded.notes]


def values(loaded: Loaded, type_: str, key: str) -> list[object]:
    """A property of all pools of a type, in their order."""
    structure = loaded.structure
    return [
        dict(structure.kind_of(v).properties).get(key) for v in sorted(structure.of_type(type_).tolist(), key=structure.id.item)
    ]


def sizes(loaded: Loaded, type_: str = "memory") -> dict[int, int]:
    """The sizes of all pools of a type by id."""
    structure = loaded.structure
    return {structure.id.item(v): structure.size.item(v) for v in structure.of_type(type_).tolist()}
