"""The messages between parents and children: JSON objects, one per line.

A parent writes to the standard input of its child: `begin` once, then `go`. The end of the pipe ends the child, so a parent that
dies ends it as well. A child writes to its standard output: `working` from time to time as a sign of life, `ready`, a `row` for
every instance that has ended, and `done` or `failed` as its last message. Lines are short enough for a pipe to accept them at
once, so a sender never waits for its reader.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fluxres import limits
from fluxres.errors import InputError, LimitExceeded

TREE: Final = "tree"
"""Name of the outermost instance; its second child is `tree.2`, and the first of that `tree.2.1`."""


class Message(msgspec.Struct, tag_field="say", tag=str.lower, forbid_unknown_fields=True):
    """A message."""


class Begin(Message):
    """The parameters of a child.

    Args:
        tree_id: its name in the hierarchy.
        run: name of the run, the same for all its instances.
        store, graph: where the copy of its part is.
        folder: directory of the run, for its own store.
        is_temporary: whether that directory is deleted with the run; if its parent cannot do that any more, the child does.
        parent: process id of the sender.
        fan_outs: of the levels from this one on.
        queue_policies, match_policies: of the levels from this one on.
        inventory: of all instances.
        jobs: number of jobs for the instances without children from here on.
        job: the program of each job.
        request: the request of each job.
        duration_s: time limit of each job; None for none.
        grace_s: time from SIGTERM to SIGKILL.
        silence_s: time without a message after which a child is lost.
        instances: number of instances of the run; as many seconds more may pass until the first message.
        keeps_starts: whether instances that run jobs leave a file with the starts of these in the directory of the run.
    """

    tree_id: str
    run: str
    store: str
    graph: str
    folder: str
    is_temporary: bool
    parent: int
    fan_outs: tuple[int, ...]
    queue_policies: tuple[str, ...]
    match_policies: tuple[str, ...]
    inventory: str
    jobs: int
    job: str
    request: str
    duration_s: float | None
    grace_s: float
    silence_s: float
    instances: int
    keeps_starts: bool = False

    @property
    def mark(self) -> str:
        """The mark in the environment of the processes of this instance."""
        return f"{self.run}/{self.tree_id}"


class Go(Message):
    """All instances are ready: run the jobs."""


class Working(Message):
    """A sign of life, with the number of jobs that have ended."""

    completed: int
    failed: int


class Ready(Message):
    """The instance and all below it are ready."""


class Row(Message):
    """The row of an instance that has ended.

    Args:
        tree_id: its name.
        begin_s, end_s: start and end of the process, in seconds since 1970.
        boot_s: the part of this time until it and all below it were ready.
        match_s: the part of this time spent deciding which jobs to start, and on which pools.
        started: number of jobs, or children, that got resources.
        jobs: number of jobs for it, or for those below it.
        completed, failed: of these jobs. The others were lost with their instance, or never started.
        nodes, cores, gpus: its resources; parts of nodes count as nodes.
        status: the highest exit status in it, as a shell reports it.
        note: a problem; empty if there was none.
        is_leaf: whether it ran the jobs itself.
    """

    tree_id: str
    begin_s: float
    end_s: float
    boot_s: float
    match_s: float
    started: int
    jobs: int
    completed: int
    failed: int
    nodes: int
    cores: int
    gpus: int
    status: int
    note: str
    is_leaf: bool

    @property
    def level(self) -> int:
        """0 for the outermost."""
        return self.tree_id.count(".")


class Done(Message):
    """The last message of a child that has done its work."""


class Failed(Message):
    """The last message of a child that failed: an error of fluxres."""

    message: str


ToChild = Begin | Go
ToParent = Working | Ready | Row | Done | Failed

_TO_CHILD: Final = msgspec.json.Decoder(ToChild)
_TO_PARENT: Final = msgspec.json.Decoder(ToParent)


def line(message: Message) -> bytes:
    """The encoded message.

    Errors: LimitExceeded for one that a pipe would not accept at once.

    >>> line(Working(3, 1))
    b'{"say":"working","completed":3,"failed":1}\\n'
    """
    made = msgspec.json.encode(message) + b"\n"
    if len(made) > limits.MESSAGE_BYTES_MAX:
        raise LimitExceeded(f"{len(made)} bytes for a child, expected at most {limits.MESSAGE_BYTES_MAX}", where="hierarchy")
    return made


def to_child(text: bytes) -> ToChild:
    """Decode a message of a parent.

    Errors: InputError.
    """
    try:
        said: ToChild = _TO_CHILD.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{error}, got {text!r:.80}", where="parent") from None
    return said


def to_parent(text: bytes) -> ToParent:
    """Decode a message of a child.

    Errors: InputError.

    >>> to_parent(b'{"say":"working","completed":3,"failed":1}')
    Working(completed=3, failed=1)
    """
    try:
        said: ToParent = _TO_PARENT.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{error}, got {text!r:.80}", where="child") from None
    return said


class Lines:
    """Splits the data of a pipe into lines.

    >>> lines = Lines()
    >>> list(lines.take(b"one\\ntw")), list(lines.take(b"o\\n"))
    ([b'one'], [b'two'])
    """

    def __init__(self) -> None:
        self._rest = b""

    def take(self, piece: bytes) -> Iterator[bytes]:
        """The lines that are complete with this piece.

        Errors: LimitExceeded for a line that does not end.
        """
        *whole, self._rest = (self._rest + piece).split(b"\n")
        yield from whole
        if len(self._rest) > limits.MESSAGE_BYTES_MAX:
            raise LimitExceeded(f"a line of more than {limits.MESSAGE_BYTES_MAX} bytes", where="child")
