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
        text: str = _drawing().to_text(self)
        return text

    def show(self) -> None:
        """Print it, fitted into the terminal."""
        sys.stdout.write(_drawing().fitted(self) + "\n")

    def _repr_html_(self) -> str:
        """The table that notebooks show."""
        html: str = _drawing().to_html(self)
        return html


class Tabular(Shown):
    """A value with rows and columns for data frames, through the Arrow PyCapsule interface; needs pyarrow.

    polars.DataFrame(value), pyarrow.table(value), pandas.DataFrame.from_arrow(value) and duckdb read it as it is.
    """

    __slots__ = ()

    def to_arrow(self) -> Any:
        """The rows as a pyarrow.Table.

        Errors: UsageError if pyarrow is not installed.
        """
        return import_module("fluxres.render.arrow").table(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows as a stream of the Arrow C interface."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """The rows as a pandas.DataFrame. Errors: UsageError if pyarrow or pandas is not installed."""
        return import_module("fluxres.render.arrow").to_pandas(self)

    def to_polars(self) -> Any:
        """The rows as a polars.DataFrame. Errors: UsageError if pyarrow or polars is not installed."""
        return import_module("fluxres.render.arrow").to_polars(self)


class ShownDeep(Shown):
    """A value with a tree of pools, which may be shown in part."""

    __slots__ = ()

    def show(self, depth: int | None = None) -> None:
        """Print it, fitted into the terminal.

        Args:
            depth: number of levels below the top; all by default.
        """
        sys.stdout.write(_drawing().fitted(self, depth=depth) + "\n")
