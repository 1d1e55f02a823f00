"""Output: the same facts as a table, as JSON, or as paths for another command."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import orjson

from fluxres.cli.failures import tell
from fluxres.cli.settings import R_OUTPUTS, Settings
from fluxres.render.style import Style
from fluxres.render.text import printable

if TYPE_CHECKING:
    from fluxres.model import Allocation, Selection


def answer(
    settings: Settings,
    *,
    document: Callable[[], dict[str, Any]],
    lines: Callable[[Style], Iterable[str]],
    pools: Callable[[], Selection] | None = None,
    allocations: Callable[[], Iterable[Allocation]] | None = None,
) -> None:
    """Print the result of a command in the requested form.

    Args:
        document: the plain values for JSON; a list that may be long can be an iterator, and is written item by item.
        lines: the lines of text.
        pools: the pools, for paths, one per line or folded.
        allocations: for resource sets, one per line, each written as it is made.
    """
    if settings.json:
        _write_json(document())
    elif settings.output == "table":
        _write(lines(settings.style()))
    elif settings.output in R_OUTPUTS:
        for allocation in allocations() if allocations is not None else ():
            sys.stdout.write(_json(allocation.R(R_OUTPUTS[settings.output]), 0) + "\n")
    elif pools is not None:
        _write(_paths(pools(), folded=settings.output == "folded"))


def _write_json(document: dict[str, Any]) -> None:
    later = {key: value for key, value in document.items() if isinstance(value, Iterator)}
    text = _json({key: [] if key in later else value for key, value in document.items()})
    for key, items in later.items():
        before, _, text = text.partition(f'  "{key}": []')
        sys.stdout.write(f'{before}  "{key}": [')
        some = False
        for item in items:
            sys.stdout.write(("," if some else "") + "\n    " + _json(item).replace("\n", "\n    "))
            some = True
        sys.stdout.write("\n  ]" if some else "]")
    sys.stdout.write(text + "\n")


def _json(value: object, indent: int = 2) -> str:
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode()
    if text.isascii() or _is_utf8():
        return text
    import json

    return json.dumps(value, indent=indent or None)


def _paths(selection: Selection, *, folded: bool) -> Iterable[str]:
    if not folded:
        where = selection.graph.structure.where
        return (printable(where(v)) for v in selection.vertices.tolist())
    import numpy as np

    from fluxres.render.folding import fold

    looks = np.zeros(len(selection), np.uint64)
    return (item.text for item in fold(selection.graph.structure, selection.vertices, looks, typeable=True))


def _write(lines: Iterable[str]) -> None:
    write, plain, encoding = sys.stdout.write, not _is_utf8(), sys.stdout.encoding or "ascii"
    for line in lines:
        if plain and not line.isascii():
            line = line.translate(_IN_ASCII).encode(encoding, "backslashreplace").decode(encoding)
        write(line + "\n")


_IN_ASCII: Final = str.maketrans({"├": "|", "└": "`", "│": "|", "─": "-", "×": "x", "↔": "<->", "→": "->", "…": "..."})
"""Replacements for the characters of tables and trees on terminals without UTF-8."""


def _is_utf8() -> bool:
    return (sys.stdout.encoding or "utf-8").lower().replace("-", "") == "utf8"


def note(text: str) -> None:
    """Print a line on standard error that is not part of the output."""
    tell(f"fluxres: {text}\n")
