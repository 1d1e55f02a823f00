"""What a person sees of a value: its text, and a table in a notebook.

The tables are those of the commands, in :mod:`fluxres.render`, which is above the values. It is imported by name when somebody
looks, so that programs that look at nothing do not load it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any


def _drawing() -> Any:
    return import_module("fluxres.render.shown")


class Shown:
    """A value with a text and a table: `print(value)` and `show()` print what the commands print."""

    __slots__ = ()

    def __str__(self) -> str:
        text: str = _drawing().text(self)
        return text

    def show(self) -> None:
        """Print it, fitted into the terminal."""
        sys.stdout.write(_drawing().fitted(self) + "\n")

    def _repr_html_(self) -> str:
        """The table that notebooks show."""
        html: str = _drawing().html(self)
        return html


class ShownDeep(Shown):
    """A value with a tree of pools, which may be shown in part."""

    __slots__ = ()

    def show(self, depth: int | None = None) -> None:
        """Print it, fitted into the terminal.

        Args:
            depth: only so many levels below the top; by default all.
        """
        sys.stdout.write(_drawing().fitted(self, depth=depth) + "\n")
