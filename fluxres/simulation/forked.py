"""What the server that forks the runs of a campaign has imported beforehand; imported by nobody else.

A campaign that is killed while it starts a run leaves a process that has been told nothing.  There is nothing to run and nobody
to tell, so that process ends without a traceback.
"""

from __future__ import annotations

import sys
from types import TracebackType

from fluxres.simulation import execution

__all__ = ["execution"]


def _told(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if not issubclass(kind, EOFError | ConnectionError):
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _told
