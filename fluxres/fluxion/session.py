"""A session of `fluxres query`: commands in, lines out, byte for byte like `resource-query`.

The output for a request goes to the results; listings, help and timings go to standard output, errors to standard error, as in
that program. Output is flushed before the next command is read, so that another program may wait for it. Unlike there, an unknown
command is an error, and the end of the input ends the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from fluxres.clock import Clock, system
from fluxres.documents import source_text, yaml_document
from fluxres.errors import FluxresError, InfeasibleRequest, InputError, UnknownJob, UsageError
from fluxres.fluxion import changes, drawing, jobspec, loading, pruning
from fluxres.fluxion import find as finding
from fluxres.fluxion.graph import Vertex
from fluxres.fluxion.matching import OPERATIONS, UNRECORDED, Operation, Outcome, Scheduling
from fluxres.fluxion.options import Options

PROMPT: Final = "resource-query> "
_RULE: Final = "INFO: =============================\n"
_NOTHING: Final = "No matching resources found"


@dataclass
class _Job:
    """A job as shown by `list` and `info`."""

    jobspec: str
    state: str
    at: int = 0
    elapsed_s: float = 0.0


class Session:
    """One graph and the commands on it.

    Args:
        options: of the command line.
        out: where results go.
        console: standard output.
        errors: standard error.

    Errors: FluxresError if the graph cannot be loaded.
    """

    def __init__(self, options: Options, out: TextIO, console: TextIO, errors: TextIO, *, clock: Clock = system) -> None:
        self._options = options
        self.out = out
        self._console = console
        self._errors = errors
        self._jobs: dict[int, _Job] = {}
        self._next_job = 1
        self._matches: list[float] = []
        self.unknown_commands = 0
        graph = loading.load(options.load_file, options.load_format, options.allowlist)
        self.drawing = (
            None if options.graph_output is None else drawing.drawing(graph, options.graph_format, options.graph_output)
        )
        filters = pruning.parse(pruning.DEFAULT if options.prune_filters is None else options.prune_filters)
        self.scheduling = Scheduling(
            graph,
            options.subsystem,
            options.policy,
            options.match_format,
            is_flexible=options.is_flexible,
            filters=filters,
            clock=clock,
        )

    def run(self, lines: Iterable[str]) -> None:
        """Run the commands of some lines, until one is quit or there are no more."""
        self._prompt()
        for line in lines:
            goes_on = self.do(line)
            self.out.flush()
            self._console.flush()
            self._errors.flush()
            if not goes_on:
                return
            self._prompt()

    def _prompt(self) -> None:
        if self._options.prompt:
            self._console.write(PROMPT)
            self._console.flush()

    def do(self, line: str) -> bool:
        """Run one command; False if it was the last."""
        words = line.split()
        if not words or words[0].startswith("#"):
            return True
        command = BY_WORD.get(words[0])
        if command is None:
            self.unknown_commands += 1
            self._error(UsageError(f"unknown command {words[0][:80]!r}", hint="'help' lists the commands"))
            return True
        if command.name == "quit":
            return False
        try:
            if not command.fewest <= len(words) <= (command.most or len(words)):
                raise UsageError(f"{command.name}: expected {command.usage}")
            command.run(self, words)
        except FluxresError as error:
            self._error(error)
        return True

    def _error(self, error: FluxresError) -> None:
        self._errors.write(f"ERROR: {error}\n")

    def _info(self, *lines: str) -> None:
        self.out.write(_RULE + "".join(f"INFO: {line}\n" for line in lines) + _RULE)

    def _match(self, words: list[str]) -> None:
        self._match_one(_operation(words[1]), words[2])

    def _match_many(self, words: list[str]) -> None:
        for file in words[2:]:
            if not self._match_one(_operation(words[1]), file):
                return

    def _match_one(self, operation: Operation, file: str) -> bool:
        """Try one request; returns whether to try the next of several."""
        job = self._next_job
        while job in self._jobs:
            job += 1
        try:
            text = source_text.read_file(Path(file))
        except FluxresError as error:
            self._error(error)
            return True
        try:
            document = yaml_document.load(text, file=file)
            request = jobspec.read(document, self.scheduling.graph.counted | self.scheduling.graph.types.keys())
            outcome = self.scheduling.match(job, request, operation)
        except FluxresError as error:
            self._error(error)
            if operation != "satisfiability":
                self._info(_NOTHING, f"JOBID={job}")
            return False
        if outcome.reason:
            self._error(InfeasibleRequest(outcome.reason, where=file))
        if operation == "satisfiability":
            self._info("Satisfiable request" if outcome.is_satisfiable else "Unsatisfiable request")
            self._console.writelines(f"INFO: {line}\n" for line in self._effort(outcome))
            return outcome.is_satisfiable
        if operation not in UNRECORDED:
            self._next_job = job + 1
        self._report(job, outcome, file, "MATCHED" if operation in UNRECORDED else "ALLOCATED")
        self._matches.append(outcome.elapsed_s)
        return outcome.at is not None

    def _effort(self, outcome: Outcome) -> list[str]:
        if not self._options.elapse_time:
            return []
        traverser = self.scheduling.traverser
        return [
            f"ELAPSE={outcome.elapsed_s:f}",
            f"PREORDER VISIT COUNT={traverser.preorder}",
            f"POSTORDER VISIT COUNT={traverser.postorder}",
        ]

    def _report(self, job: int, outcome: Outcome, file: str, word: str) -> None:
        if outcome.at is None:
            reason = [] if outcome.is_satisfiable else ["Unsatisfiable request"]
            effort = self._effort(outcome)
            self._info(_NOTHING, *reason, f"JOBID={job}", *effort[:1])
            self._console.writelines(f"INFO: {line}\n" for line in effort[1:])
            return
        if outcome.at and word == "ALLOCATED":
            word = "RESERVED"
        self.out.write(outcome.text)
        self._info(f"JOBID={job}", f"RESOURCES={word}", f"SCHEDULED AT={outcome.at or 'Now'}")
        self._console.writelines(f"INFO: {line}\n" for line in self._effort(outcome))
        if word != "MATCHED":
            self._jobs[job] = _Job(file, word, outcome.at, outcome.elapsed_s)

    def _update(self, words: list[str]) -> None:
        if words[1] not in ("allocate", "reserve"):
            raise UsageError(f"update: expected allocate or reserve, got {words[1]!r}")
        job, at, duration = (_integer(word) for word in words[4:])
        text = source_text.read_file(Path(words[3]))
        try:
            outcome = changes.update(self.scheduling, text, words[3], words[2], job, at, duration)
        except UsageError:
            raise
        except FluxresError as error:
            self._error(error)
            outcome = Outcome(None)
        self._next_job = job + 1
        self._report(job, outcome, words[3], "ALLOCATED")

    def _attach(self, words: list[str]) -> None:
        changes.attach(self.scheduling, words[1])

    def _remove(self, words: list[str]) -> None:
        if words[2] not in ("true", "false"):
            raise UsageError(f"remove: expected true for a path or false for ranks, got {words[2]!r}")
        changes.remove(self.scheduling, words[1], words[2] == "true")

    def _find(self, words: list[str]) -> None:
        text = " ".join(words[1:])
        scheduling = self.scheduling
        expression = finding.parse(text)
        writer = scheduling.writer()
        finding.find(scheduling.graph, scheduling.subsystem, expression, writer, scheduling.next_color())
        answer = writer.text(0, 0)
        if answer is None:
            raise InputError(f"-F {self._options.match_format} has no form for an answer without cores and gpus")
        self.out.write(answer)
        self._info(f'EXPRESSION="{text}"')

    def _known_job(self, word: str) -> int:
        job = _integer(word)
        if job not in self._jobs:
            raise UnknownJob(f"no job {job}", hint="'list' shows all jobs")
        return job

    def _cancel(self, words: list[str]) -> None:
        stats = _stats(words, 2)
        job = self._known_job(words[1])
        visits = self.scheduling.visits(job)
        self.scheduling.cancel(job)
        del self._jobs[job]
        if stats:
            self._say_visits("CANCEL", visits)

    def _partial_cancel(self, words: list[str]) -> None:
        stats = _stats(words, 4)
        text = source_text.read_file(Path(words[3]))
        job = self._known_job(words[1])
        try:
            if changes.partial_cancel(self.scheduling, job, words[2], text, words[3]):
                del self._jobs[job]
        except InputError as error:
            self._error(error)
        if stats:
            # Fluxion finds the vertices of a fragment without a walk from the root.
            self._say_visits("PARTIAL CANCEL", (0, 0))

    def _say_visits(self, what: str, visits: tuple[int, int]) -> None:
        self._info(f'{what} PREORDER COUNT="{visits[0]}"', f'{what} POSTORDER COUNT="{visits[1]}"')

    def _vertices(self, path: str, message: str) -> list[Vertex]:
        found = self.scheduling.graph.by_path.get(path, [])
        if not found:
            self.out.write(f"{message} {path} in resource graph.\n")
        return found

    def _set_property(self, words: list[str]) -> None:
        key, equals, value = words[2].partition("=")
        if not (key and equals and value):
            self.out.write("Incorrect input format. \nPlease use `set-property <resource> PROPERTY=VALUE`.\n")
            return
        for vertex in self._vertices(words[1], "Couldn't find path"):
            vertex.properties[key] = value

    def _get_property(self, words: list[str]) -> None:
        for vertex in self._vertices(words[1], "Could not find path"):
            if not vertex.properties:
                self.out.write(f"No properties were found for {words[1]} (vtx's uniq_id={vertex.uniq_id}).\n")
            for key, value in sorted(vertex.properties.items()):
                self.out.write(f"{key}={value}\n")

    def _set_status(self, words: list[str]) -> None:
        vertices = self._vertices(words[1], "Could not find path")
        if vertices and words[2] not in ("up", "down"):
            raise UsageError(f"set-status: expected up or down, got {words[2]!r}")
        for vertex in vertices:
            self.scheduling.set_status(vertex, words[2] == "up")

    def _get_status(self, words: list[str]) -> None:
        for vertex in self._vertices(words[1], "Could not find path"):
            self.out.write(f"{words[1]} is {vertex.state}\n")

    def _list(self, words: list[str]) -> None:
        for job in sorted(self._jobs):
            self._tell(job)

    def _tell(self, job: int) -> None:
        known = self._jobs[job]
        self._console.write(f"INFO: {job}, {known.jobspec}, {known.state}\n")

    def _about(self, words: list[str]) -> None:
        self._tell(self._known_job(words[1]))

    def _stat(self, words: list[str]) -> None:
        graph, times = self.scheduling.graph, self._matches or [0.0]
        self._console.write(
            f"Num. of Vertices: {len(graph.vertices)}\n"
            f"Num. of Edges: {sum(len(vertex.edges) for vertex in graph.vertices)}\n"
            f"Num. of Jobs Matched: {len(self._matches)}\n"
            f"Match Time (Min/Max/Avg): {min(times):f} {max(times):f} {sum(times) / len(times):f} secs\n"
        )

    def _cat(self, words: list[str]) -> None:
        self._console.write(yaml_document.load(Path(words[1])).text)

    def _help(self, words: list[str]) -> None:
        for command in COMMANDS:
            self._console.write(f"{command.usage} ({command.short}): {command.help}\n")


@dataclass(frozen=True)
class Command:
    """A command: name, abbreviation, and the allowed number of words including its name (a maximum of 0 is no limit)."""

    name: str
    short: str
    usage: str
    help: str
    run: Callable[[Session, list[str]], None]
    fewest: int
    most: int


_OPERATION = "|".join(OPERATIONS)
# This table calls private methods of the session on purpose; nothing else does.
COMMANDS: Final = tuple(
    Command(*row)
    for row in (
        ("match", "m", f"match {_OPERATION} JOBSPEC", "match a request", Session._match, 3, 3),
        ("multi-match", "M", f"multi-match {_OPERATION} JOBSPEC...", "match several in turn", Session._match_many, 4, 0),
        (
            "update",
            "u",
            f"update allocate|reserve {'|'.join(changes.READERS)} FILE JOBID START DURATION",
            "import an allocation",
            Session._update,
            7,
            7,
        ),
        ("attach", "j", "attach FILE", "add the subgraph in a JGF file", Session._attach, 2, 2),
        ("remove", "-", "remove PATH true | remove RANKS false", "remove a part of the graph", Session._remove, 3, 3),
        ("find", "f", "find EXPRESSION", "find vertices", Session._find, 2, 0),
        ("cancel", "c", "cancel JOBID [stats]", "release what a job has", Session._cancel, 2, 3),
        (
            "partial-cancel",
            "pc",
            f"partial-cancel JOBID {'|'.join(changes.CANCEL_READERS)} FILE [stats]",
            "release a part of what a job has",
            Session._partial_cancel,
            4,
            5,
        ),
        ("set-property", "p", "set-property PATH KEY=VALUE", "set a property", Session._set_property, 3, 3),
        ("get-property", "g", "get-property PATH", "show the properties of a vertex", Session._get_property, 2, 2),
        ("set-status", "t", "set-status PATH up|down", "mark a vertex up or down", Session._set_status, 3, 3),
        ("get-status", "e", "get-status PATH", "show whether a vertex is up", Session._get_status, 2, 2),
        ("list", "l", "list", "list the jobs", Session._list, 1, 1),
        ("info", "i", "info JOBID", "show a job", Session._about, 2, 2),
        ("stat", "s", "stat", "show the size of the graph and times of matches", Session._stat, 1, 1),
        ("cat", "a", "cat FILE", "print a file", Session._cat, 2, 2),
        ("help", "h", "help", "list the commands", Session._help, 1, 0),
        ("quit", "q", "quit", "end the session", Session._help, 1, 0),
    )
)
"""All commands, in the order of their help."""
BY_WORD: Final = {word: command for command in reversed(COMMANDS) for word in (command.short, command.name)}
"""Commands by name and abbreviation."""


def _operation(word: str) -> Operation:
    if word not in OPERATIONS:
        raise UsageError(f"unknown match operation {word[:80]!r}", hint=f"one of {', '.join(OPERATIONS)}")
    return OPERATIONS[word]


def _integer(word: str) -> int:
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal()) or len(digits) > 19:
        raise UsageError(f"expected an integer, got {word[:40]!r}")
    return int(word)


def _stats(words: list[str], position: int) -> bool:
    if len(words) > position and words[position] != "stats":
        raise UsageError(f"expected stats, got {words[position]!r}")
    return len(words) > position
