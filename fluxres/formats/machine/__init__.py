"""The machine that this program runs on, from /proc, /sys and the environment, without libhwloc: the source ``this-machine``.

`fluxres run` detects the machine before it starts a program, so this takes a few milliseconds: one read for each core and device,
no other program where the kernel says enough. All files are read below a root, and the environment is passed in; so a recorded
tree is detected like the machine itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from fluxres.formats.format import Format, never

if TYPE_CHECKING:
    from fluxres.formats.machine.detect import this_machine

__all__ = ["FORMATS", "this_machine"]

FORMATS: Final = (
    Format(
        "this-machine",
        "the machine itself, by /proc and /sys; 'this-machine:detect=cpus,gpus/nvidia' is a part of it",
        (),
        never,
        live="fluxres.formats.machine.detect:read",
        carries=frozenset({"pools", "names", "ids", "sizes", "units", "properties", "ranks"}),
        options=frozenset({"cluster"}),
    ),
)


def __getattr__(name: str) -> Any:
    if name == "this_machine":
        return import_module("fluxres.formats.machine.detect").this_machine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
