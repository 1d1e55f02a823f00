"""What parents and children say to each other: JSON objects, one a line.

A parent writes to the standard input of its child: `begin` once, then `go`; the end of the pipe means the end of the child, so
that a parent that dies says it as well.  A child writes to its standard output: `working` now and then as a sign of life,
`ready`, a `row` for every instance that is over, and `done` or `failed` as its last word.  Lines are short enough for a pipe to
take them at once, so that nobody waits for a reader.
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
    """Something said."""


class Begin(Message):
    """What a child is to be.

    Args:
        tree_id: its name in the hierarchy.
        run: name of the run, the same for all its instances.
        store, graph: where the copy of its part lies.
        folder: of the run; for its own store.
        is_temporary: whether that goes with the run; if its parent cannot do that any more, the child does.
        parent: process that says so.
        fan_outs: of the levels from this one on.
        queue_policies, match_policies: of the levels from this one on.
        inventory: of all.
        jobs: number of jobs for the instances without children from here on.
        job: what each does.
        request: what each asks for.
        duration_s: limit of each; None for none.
        grace_s: how long who is told to end may take.
        silence_s: after how many seconds without a word a child is given up.
        instances: in the whole run; that number of seconds more may pass until the first word.
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

    @property
    def mark(self) -> str:
        """What processes of this instance carry in their environment."""
        return f"{self.run}/{self.tree_id}"


class Go(Message):
    """All are there: run the jobs."""


class Working(Message):
    """A sign of life, with how many jobs are over."""

    completed: int
    failed: int


class Ready(Message):
    """The instance and all below it are there."""


class Row(Message):
    """An instance that is over.

    Args:
        tree_id: its name.
        begin_s, end_s: from its first line to its last, in seconds since 1970.
        boot_s: of that, until it and all below it were there.
        match_s: of that, spent in deciding which jobs to start, and on which pools.
        started: jobs, or children, that were given resources.
        jobs: that it, or those below it, were to run.
        completed, failed: of these. What is missing was lost with its instance, or never started.
        nodes, cores, gpus: what it had, parts of nodes counted as nodes.
        status: the highest exit code in it, as a shell has them.
        note: what went wrong; empty for nothing.
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
    """The last word of a child that did what it was told."""


class Failed(Message):
    """The last word of a child that could not: an error of fluxres."""

    message: str


ToChild = Begin | Go
ToParent = Working | Ready | Row | Done | Failed

_TO_CHILD: Final = msgspec.json.Decoder(ToChild)
_TO_PARENT: Final = msgspec.json.Decoder(ToParent)


def line(message: Message) -> bytes:
    """A message as it is written.

    Errors: LimitExceeded for one that a pipe would not take at once.

    >>> line(Working(3, 1))
    b'{"say":"working","completed":3,"failed":1}\\n'
    """
    made = msgspec.json.encode(message) + b"\n"
    if len(made) > limits.MESSAGE_BYTES_MAX:
        raise LimitExceeded(f"{len(made)} bytes for a child, expected at most {limits.MESSAGE_BYTES_MAX}", where="hierarchy")
    return made


def to_child(text: bytes) -> ToChild:
    """What a parent said.

    Errors: InputError.
    """
    try:
        said: ToChild = _TO_CHILD.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{error}, got {text!r:.80}", where="parent") from None
    return said


def to_parent(text: bytes) -> ToParent:
    """What a child said.

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
    """Lines out of pieces as they come through a pipe.

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
