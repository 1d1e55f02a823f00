"""Output for people: tables, trees, folded names, amounts; and the plain values that ``--json`` prints.

Nothing here prints, reads a terminal or knows a command. Values go in, lines of text come out, so a terminal, a pipe and a
document get the same text; a terminal only adds colour, and a notebook gets HTML.

>>> from fluxres.render import Column, table
>>> print("\\n".join(table([Column("TYPE"), Column("POOLS", right=True)], [["core", "128"]])))
TYPE  POOLS
core    128
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fluxres.render.shown import to_html, to_text
    from fluxres.render.text import Column, Style, table

__all__ = ["Column", "Style", "table", "to_html", "to_text"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'fluxres.render' has no attribute {name!r}")
    module = "shown" if name.startswith("to_") else "text"
    return getattr(import_module(f"fluxres.render.{module}"), name)


def __dir__() -> list[str]:
    return __all__
