"""Where the script `fluxres` begins.

Everything is imported inside the function, so that Ctrl-C while Python still imports ends as quietly as at
any other moment.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def main() -> int:
    """Run the command line of this process; its exit status."""
    _open_streams()
    try:
        from fluxres.cli.program import run

        return run(sys.argv[1:])
    except KeyboardInterrupt:
        return _interrupted()
    except RuntimeError as error:
        # Before 3.12, Python wraps what interrupts it while it names the attributes of a class.
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        return _interrupted()


def _open_streams() -> None:
    """Open each of the standard streams that is closed, so that no file that is opened later takes its number.

    Standard output becomes one that cannot be written to: an answer that is lost is an error, as on a full disk.
    """
    if sys.stdin is None:
        sys.stdin = open(os.open(os.devnull, os.O_RDONLY), encoding="utf-8")  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.open(os.devnull, os.O_RDONLY), "w", encoding="utf-8")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8")  # noqa: SIM115


def _interrupted() -> int:
    with suppress(OSError):
        sys.stderr.write("fluxres: interrupted\n")
    return 130
