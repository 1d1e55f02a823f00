"""Job control: which process group has the terminal while a program of `fluxres run` uses it.

As a shell does, a launcher that is alone in the foreground gives the terminal to the process group of the program. So Ctrl-C
and Ctrl-Z reach the program only; when it is stopped, the launcher takes the terminal back and stops itself, and the shell of
the user sees a stopped job. In a pipeline or a script the launcher shares its process group with others, which may use the
terminal too; then the program stays in that group, and all of them get what is typed.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

import msgspec

from fluxres.launch.program import take_terminal


class Terminal(msgspec.Struct, frozen=True):
    """How a launcher uses its terminal.

    Args:
        is_there: whether its session has one.
        is_shared: whether the program stays in the process group of the launcher.
    """

    is_there: bool
    is_shared: bool

    @property
    def is_ours(self) -> bool:
        """Whether the process group of the launcher is in the foreground."""
        return self.is_there and _foreground() == os.getpgrp()

    def take_back(self, program: int) -> None:
        """Put the launcher into the foreground again, if the process group of the program is there, or one that has gone.

        It may be that of a job of a shell. Any other group has got the terminal from the shell of the user.
        """
        if self.is_there and not self.is_shared and ((group := _foreground()) == program or _has_gone(group)):
            take_terminal(os.getpgrp())

    def stop(self, program: int) -> None:
        """Stop the launcher, as its program has been; returns when it is continued."""
        self.take_back(program)
        os.kill(os.getpid(), signal.SIGSTOP)


def find() -> Terminal:
    """The terminal of this process."""
    if _foreground() is None:
        return Terminal(is_there=False, is_shared=False)
    return Terminal(is_there=True, is_shared=os.getpgrp() != os.getpid() or _has_others(os.getpgrp()))


def _foreground() -> int | None:
    """The process group in the foreground of the terminal of this session; None without a terminal."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError:
        return None
    try:
        return os.tcgetpgrp(terminal)
    except OSError:
        return None
    finally:
        os.close(terminal)


def _has_gone(group: int | None) -> bool:
    """Whether a process group has no process any more."""
    if not group:
        return False
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    return False


def _has_others(group: int) -> bool:
    """Whether other processes are in the process group of this one."""
    own = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != own:
            with suppress(OSError):
                if os.getpgid(int(name)) == group:
                    return True
    return False
