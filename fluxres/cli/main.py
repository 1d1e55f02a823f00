"""The entry points of the scripts `fluxres` and `fluxres-query`.

Everything that takes time is imported inside the function, so that Ctrl-C during imports ends as quietly as at any other time.
"""

from __future__ import annotations

import gc
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

_OBJECTS_BETWEEN_COLLECTIONS: Final = 200_000
"""Imports make 60,000 objects that stay: one search for cycles among them takes a fifth of the import of NumPy (specs/run.md)."""

_THREADS: Final = "OPENBLAS_NUM_THREADS"


def main() -> int:
    """Run the command line of this process and return its exit status."""
    return _main(sys.argv[1:])


def query() -> int:
    """The script `fluxres-query`: `fluxres query` under its own name."""
    return _main(["query", *sys.argv[1:]])


def _main(argv: list[str]) -> int:
    interrupts = None
    try:
        _open_streams()
        gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
        _keep_to_one_thread()
        from fluxres.cli.interrupts import Interrupts

        interrupts = Interrupts()
        from fluxres.cli.program import run

        return run(argv)
    except KeyboardInterrupt:
        return _interrupted()
    except RuntimeError as error:
        # Before 3.12, Python wraps an interrupt that arrives while it sets the names of class attributes.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        return _interrupted()
    finally:
        if interrupts is not None:
            interrupts.end()
        gc.freeze()  # the interpreter looks for cycles once more at its end, and has nothing to gain from it


def _keep_to_one_thread() -> None:
    """Spare the start of NumPy's threads for linear algebra, which no command uses: nearly half of the CPU time of its import.

    `putenv` leaves `os.environ` as it is, and so the environment of the programs that `fluxres run` starts.
    """
    if _THREADS not in os.environ:
        os.putenv(_THREADS, "1")


def _open_streams() -> None:
    """Open each standard stream that is closed, so that no file opened later gets its number.

    Standard output is opened so that writing fails: output that would be lost is an error, as on a full disk.
    """
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")  # noqa: SIM115


def _interrupted() -> int:
    from contextlib import suppress

    with suppress(OSError):
        sys.stderr.write("fluxres: interrupted\n")
    return 130
