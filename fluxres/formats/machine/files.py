"""Files of /proc, /sys and /dev below a root, which may be missing, unreadable, damaged, endless, or gone a moment later.

No reader here raises: what is missing is None, and what is there but cannot be used is None with a note.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path
from typing import Final

from fluxres import limits
from fluxres.documents.document import excerpt
from fluxres.formats.losses import Notes

_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_SPAN: Final = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_CHUNK: Final = 65_536
_HEAD: Final = 4_096


def span_numbers(text: str) -> set[int]:
    """The numbers in the kernel's list format.

    Errors: ValueError for anything else, and for numbers from `limits.CPUS_MAX` on.
    Source: Linux, Documentation/admin-guide/cputopology.rst and kernel-parameters.rst, "cpu lists".

    >>> sorted(span_numbers("0-2,8\\n")), span_numbers("\\n")
    ([0, 1, 2, 8], set())
    """
    found: set[int] = set()
    for field in text.strip("\n\0 ").split(","):
        match = _SPAN.fullmatch(field)
        if match is None:
            if not field and not found:
                continue
            raise ValueError(field)
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last >= limits.CPUS_MAX or last < first:
            raise ValueError(field)
        found.update(range(first, last + 1))
    return found


def is_value(text: str) -> bool:
    """Whether a text from a file can be the value of a property."""
    return 0 < len(text) <= limits.NAME_LENGTH_MAX and text.isprintable()


class Files:
    """Reads files of a machine.

    Args:
        root: of its file system; ``/`` for the machine itself.
    """

    def __init__(self, root: Path) -> None:
        self.root = str(root).rstrip("/")
        self.notes = Notes()

    def path(self, path: str) -> str:
        """The place of a file of the machine, such as ``/proc/meminfo``."""
        return self.root + path

    def note(self, sort: str, path: str, what: str) -> None:
        self.notes.add(sort, self.path(path) if path else "", what)

    def text(self, path: str, *, head: bool = False) -> str | None:
        """The content of a file; None if there is none or it cannot be read.

        Args:
            head: only what one read gives: the kernel makes the text of all CPUs in a file that is read to its end.
        """
        try:
            # Opening a pipe would wait for its writer.
            descriptor = os.open(self.root + path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            self._unreadable(path, error)
            return None
        data = b""
        try:
            if head:
                return os.read(descriptor, _HEAD).decode("utf-8", "replace")
            while chunk := os.read(descriptor, _CHUNK):
                data = data + chunk if data else chunk
                if len(data) > limits.DETECTED_FILE_BYTES_MAX:
                    self.note("large", path, f"ignored, since it has more than {limits.DETECTED_FILE_BYTES_MAX} bytes")
                    return None
        except OSError as error:
            self._unreadable(path, error)
            return None
        finally:
            os.close(descriptor)
        return data.decode("utf-8", "replace")

    def number(self, path: str) -> int | None:
        """The whole number in a file."""
        text = self.text(path)
        return None if text is None else self.as_number(path, text)

    def as_number(self, path: str, text: str) -> int | None:
        """The number that a text from a file says."""
        found = text.strip()
        if _NUMBER.fullmatch(found):
            return int(found)
        self.note(f"number {path.rpartition('/')[2]}", path, f"expected a whole number, got {excerpt(found)}; ignored")
        return None

    def numbers(self, path: str) -> set[int] | None:
        """The list of CPUs or NUMA domains in a file."""
        text = self.text(path)
        return None if text is None else self.as_numbers(path, text)

    def as_numbers(self, path: str, text: str) -> set[int] | None:
        """The list of numbers that a text from a file says."""
        try:
            return span_numbers(text)
        except ValueError:
            what = f"expected numbers such as 0-3,8 below {limits.CPUS_MAX}, got {excerpt(text.strip())}; ignored"
            self.note(f"numbers {path.rpartition('/')[2]}", path, what)
            return None

    def names(self, path: str, pattern: re.Pattern[str]) -> list[str]:
        """The names in a directory that match as a whole, in the order of the text and then of the number in it."""
        try:
            with os.scandir(self.root + path) as entries:
                found = [entry.name for entry in islice(entries, limits.DETECTED_ENTRIES_MAX + 1)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except (OSError, ValueError) as error:
            self._unreadable(path, error)
            return []
        if len(found) > limits.DETECTED_ENTRIES_MAX:
            self.note("entries", path, f"only {limits.DETECTED_ENTRIES_MAX} of its entries are read")
            del found[limits.DETECTED_ENTRIES_MAX :]
        return sorted((name for name in found if pattern.fullmatch(name)), key=lambda name: (len(name), name))

    def link(self, path: str) -> str:
        """The target of a symbolic link; empty if it is none."""
        try:
            return os.readlink(self.root + path)
        except (OSError, ValueError):
            return ""

    def exists(self, path: str) -> bool:
        return os.path.exists(self.root + path)

    def is_usable(self, path: str) -> bool:
        """Whether this process may read and write a device file; also false if a cgroup denies the device."""
        return os.access(self.root + path, os.R_OK | os.W_OK)

    def _unreadable(self, path: str, error: OSError | ValueError) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not a path"
        self.note(f"unreadable {why}", path, f"cannot be read: {why.lower()}")
