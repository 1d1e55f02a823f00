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
        sys.stderr.write("fluxres: interrupted\n")
        return 130
