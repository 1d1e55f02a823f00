"""Where the script `fluxres` begins.

Everything is imported inside the function, so that Ctrl-C while Python still imports ends as quietly as at
any other moment.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process; its exit status."""
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


def _interrupted() -> int:
    sys.stderr.write("fluxres: interrupted\n")
    return 130
