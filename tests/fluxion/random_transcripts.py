"""Random transcripts of `fluxres query`, judged by an independent checker.

    python -m tests.fluxion.random_transcripts --seconds 60 --seed 1

Each transcript has a machine, options, and some forty command lines.  The same lines are sent to two sessions, one that
writes JGF and one that writes another form.  What the first one grants, frees and finds must be correct by the ledger of
:mod:`tests.fluxion.answer_checker`; the output of the second one must be equivalent.
"""

from __future__ import annotations

import argparse
import io
import itertools
import json
import math
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, NamedTuple

from fluxres.fluxion import options
from fluxres.fluxion.session import Session
from tests.fluxion import random_machine, random_requests
from tests.fluxion.answer_checker import Held, Ledger, Wrong, require
from tests.fluxion.random_machine import Pool
from tests.fluxion.random_requests import Values

LINES = 40
HANG_S = 60
POLICIES = (
    "first", "firstnodex", "high", "low", "lonode", "hinode", "lonodex", "hinodex", "locality", "variation",
    "policy=low stop_on_1_matches=true", "policy=high node_centric=true node_exclusive=true",
)  # fmt: skip
FORMS = ("simple", "pretty_simple", "jgf_shorthand", "rlite", "rv1", "rv1_nosched", "rv1_shorthand")
OPERATIONS = (
    "allocate", "allocate", "allocate", "allocate_orelse_reserve", "allocate_orelse_reserve", "allocate_with_satisfiability",
    "satisfiability", "without_allocating", "without_allocating_future",
)  # fmt: skip
JUNK = (
    "nonsense", "match allocate", "match borrow {file}", "match allocate /does/not/exist", "multi-match allocate {file}",
    "match allocate {file} extra", "find", "find (", "find status=up and", "f sched-now=free", "cancel", "cancel x",
    "cancel 99999", "partial-cancel 1 xml {file}", "partial-cancel 99999 jgf {file}", "set-status /none up",
    "set-property /none a=1", "set-property / =", "get-property /none", "get-status /none", "attach {file}", "attach /none",
    "remove /none true", "remove 77 false", "remove 0- false", "update allocate jgf {file} 5 0 10",
    "update allocate rv1exec {file} x 0 10", "info 1", "list", "stat", "help", "cat {file}", "#", "",
)  # fmt: skip
RULE = "INFO: ============================="


class Answer(NamedTuple):
    """One answer of a session: the text before its block, and the lines of the block."""

    text: str
    lines: tuple[str, ...]

    def get(self, key: str) -> str | None:
        """The value of `KEY=value` in the block."""
        return next((line.partition("=")[2] for line in self.lines if line.startswith(f"{key}=")), None)


def answers(text: str) -> list[Answer]:
    """The answers in an output."""
    found = []
    parts = text.split(f"{RULE}\n")
    require(len(parts) % 2 == 1 and not parts[-1], f"no whole blocks: {text[-300:]!r}")
    for before, block in zip(parts[::2], parts[1::2], strict=False):
        found.append(Answer(before, tuple(line.removeprefix("INFO: ") for line in block.splitlines())))
    return found


class Typed:
    """A session, and its output since the last read."""

    def __init__(self, words: list[str]) -> None:
        self.out, self.errors = io.StringIO(), io.StringIO()
        self.session = Session(options.parse(words), self.out, io.StringIO(), self.errors)

    def __call__(self, line: str) -> str:
        for stream in (self.out, self.errors):
            stream.seek(0)
            stream.truncate()
        require(self.session.do(line), f"{line!r} ended the session")
        return self.out.getvalue()


class Transcript:
    """One transcript, sent while it is generated."""

    def __init__(self, random: Random, folder: Path) -> None:
        self.random, self.folder = random, folder
        self.machine = random_machine.machine(random)
        policy = random.choice(POLICIES)
        self.flexible = random.random() < 0.15
        filters = [("ALL", "core"), ("ALL", "node")]
        self.form = random.choice(FORMS)
        self.lines: list[str] = []
        self.files = 0
        self.next_job = 1
        words = ["-d", "-L", self.file(self.machine.text), "-f", self.machine.load_format, "-P", policy]
        words += ["-S", self.machine.matcher, "-T", "flexible" if self.flexible else "simple"]
        if random.random() < 0.4:
            types = self.machine.types()
            filters = [(random.choice(["ALL", *types]), random.choice(types)) for _ in range(random.randint(0, 3))]
            words += ["-p", ",".join(f"{high}:{low}" for high, low in filters)]
        self.words = words
        self.ledger = Ledger(self.machine, filters, "nodex" in policy or "node_exclusive" in policy, self.flexible)
        self.one = Typed([*words, "-F", "jgf"])
        self.other: Typed | None = Typed([*words, "-F", self.form])
        self.counts: Counter[str] = Counter()

    def file(self, text: str) -> str:
        """A new file."""
        self.files += 1
        path = self.folder / f"f{self.files}"
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run(self) -> None:
        """Send some lines, and free everything at the end."""
        moves: list[tuple[int, Callable[[], None]]] = [
            (30, self.match), (4, self.match_many), (10, self.cancel), (8, self.partial_cancel), (12, self.find),
            (4, self.status), (4, self.properties), (5, self.update), (3, self.attach), (2, self.remove), (6, self.junk),
        ]  # fmt: skip
        for _ in range(LINES):
            self.random.choices([move for _, move in moves], [weight for weight, _ in moves])[0]()
        self.give_everything_back()

    def type(self, line: str) -> list[Answer]:
        """Send a line to both sessions; returns the answers of the first, which those of the second must match."""
        self.lines.append(line)
        self.counts[line.partition(" ")[0]] += 1
        found = answers(self.one(line))
        if self.other is not None:
            self._compare(found, answers(self.other(line)))
        return found

    def _compare(self, found: list[Answer], others: list[Answer]) -> None:
        assert self.other is not None
        if self.form == "rlite" and "without cores and gpus" in self.other.errors.getvalue():
            # It takes nothing and uses no id, while the other session continues.
            self.other = None
            return
        blocks = [answer.lines for answer in found]
        require(blocks == [answer.lines for answer in others], f"{self.form} answers {others} where JGF has {blocks}")
        for answer, other in zip(found, others, strict=True):
            compare(self.form, graph(answer), other.text, self.machine.subsystem)

    def match(self) -> None:
        """One request."""
        request, operation = self._request(), self.random.choice(OPERATIONS)
        found = self.type(f"match {operation} {self.file(json.dumps(request))}")
        self._judge(request, operation, found)

    def match_many(self) -> None:
        """Several requests, until one fails."""
        asked = [self._request() for _ in range(self.random.randint(2, 4))]
        operation = self.random.choice(("allocate", "allocate_orelse_reserve"))
        files = " ".join(self.file(json.dumps(request)) for request in asked)
        found = self.type(f"multi-match {operation} {files}")
        require(0 < len(found) <= len(asked), f"{len(found)} answers to {len(asked)} requests")
        for number, answer in enumerate(found):
            granted = self._judge(asked[number], operation, [answer])
            require(granted or number == len(found) - 1, "goes on after a request that failed")

    def _request(self) -> Values:
        return random_requests.request(self.random, self.machine, flexible=self.flexible)

    def _judge(self, request: Values, operation: str, found: list[Answer]) -> bool:
        """Whether it was granted."""
        error = self.one.errors.getvalue()
        earliest = self.ledger.earliest(request)
        if operation == "satisfiability":
            if found:
                require(len(found[0].lines) == 1, f"not one line: {found}")
                require(
                    earliest in (None, math.inf) or found[0].lines == ("Satisfiable request",),
                    "what comes free is not satisfiable",
                )
            else:
                require(bool(error), "no answer and no error")
            return False
        require(len(found) == 1, f"{len(found)} answers to one request")
        answer = found[0]
        job = int(answer.get("JOBID") or -1)
        expected = next(number for number in itertools.count(self.next_job) if number not in self.ledger.jobs)
        require(job == expected, f"job id {job}, expected {expected}")
        # An invalid jobspec uses no id.
        refused = "fork" in json.dumps(request["resources"])
        records = not operation.startswith("without")
        if records and not refused:
            self.next_job = job + 1
        if "No matching resources found" in answer.lines:
            require(not answer.text, "refused with pools")
            reserves = operation in ("allocate_orelse_reserve", "without_allocating_future")
            is_free = earliest == 0 or (reserves and earliest not in (None, math.inf))
            require(not is_free, f"refused although it is free from {earliest}: {request['resources']}")
            comes_free = earliest not in (None, math.inf)
            require(not (comes_free and "Unsatisfiable request" in answer.lines), f"unsatisfiable, and free from {earliest}")
            self.counts["refused"] += 1
            return False
        at = answer.get("SCHEDULED AT")
        start = 0 if at == "Now" else int(at or -1)
        word = ("RESERVED" if start else "ALLOCATED") if records else "MATCHED"
        require(answer.get("RESOURCES") == word, f"{answer.lines}, expected {word}")
        require(
            start == 0 or (start > 0 and operation in ("allocate_orelse_reserve", "without_allocating_future")), f"starts at {at}"
        )
        require(earliest in (None, start), f"starts at {start}, and is free from {earliest}: {request['resources']}")
        self.ledger.grant(job, request, pools(tree(answer), self.machine.subsystem), start, record=records)
        self.counts[word.lower()] += 1
        return True

    def cancel(self) -> None:
        """Free everything that a job has."""
        if not self.ledger.jobs:
            return
        job = self.random.choice(list(self.ledger.jobs))
        stats = self.random.random() < 0.3
        found = self.type(f"cancel {job}{' stats' if stats else ''}")
        require(len(found) == stats, f"{found} to a cancel")
        require(not self.one.errors.getvalue(), self.one.errors.getvalue())
        del self.ledger.jobs[job]
        self._expect(f"jobid-tag={job}", set())

    def partial_cancel(self) -> None:
        """Free a part of what a job has."""
        jobs = [job for job, held in self.ledger.jobs.items() if not held.reserved and held.paths]
        if not jobs or self.machine.subsystem != "containment":
            return
        job = self.random.choice(jobs)
        known = self.machine.by_path()
        held = self.ledger.jobs[job]
        if self.random.random() < 0.5:
            ranks = sorted({pool.rank for pool in known.values() if pool.type == "node" and self.random.random() < 0.5})
            if not ranks:
                return
            gone = {path for path in held.paths if known[path].rank in ranks}
            file, reader = self.file(random_machine.resource_set(ranks, {"core": 1}, self.machine.root)), "rv1exec"
        else:
            gone = {path for path in held.paths if self.random.random() < 0.6}
            file, reader = self.file(random_machine.document(self.machine.root, [known[path] for path in sorted(gone)])), "jgf"
        stats = self.random.random() < 0.3
        found = self.type(f"partial-cancel {job} {reader} {file}{' stats' if stats else ''}")
        require(len(found) == stats, f"{found} to a partial cancel")
        require(bool(gone) != bool(self.one.errors.getvalue()), f"{len(gone)} paths given back: {self.one.errors.getvalue()}")
        held.paths -= gone
        if not held.paths:
            del self.ledger.jobs[job]
            self._expect(f"jobid-tag={job}", set())
        self._expect("sched-now=allocated", self._allocated())

    def _allocated(self) -> set[str]:
        """Allocations are listed whenever they are, and so are the pools below them."""
        taken = {path for held in self.ledger.jobs.values() if not held.reserved for path in held.paths}
        return self.ledger.found(lambda pool: any(one.path in taken for one in (pool, *pool.above)))

    def _expect(self, expression: str, paths: set[str]) -> None:
        found = self.type(f"find {expression}")
        require(len(found) == 1 and found[0].lines == (f'EXPRESSION="{expression}"',), f"{found} to find {expression}")
        got = {path for path, _, _ in pools(graph(found[0]), self.machine.subsystem)}
        require(got == paths, f"find {expression}: {sorted(got ^ paths)} differ")

    def find(self) -> None:
        """The pools that satisfy an expression, according to the ledger."""
        expression, meets = self._predicate()
        for _ in range(self.random.choice([0, 0, 1, 2])):
            more, also = self._predicate()
            word = self.random.choice(["and", "or", ""])
            expression = " ".join(text for text in (expression, word, more) if text)
            meets = _joined(meets, also, word == "or")
        self._expect(expression, self.ledger.found(meets))
        if self.random.random() < 0.3:
            self._check_counts()

    def _predicate(self) -> tuple[str, Callable[[Pool], bool]]:
        """An expression, and its meaning."""
        jobs, pool = self.ledger.jobs, self.random.choice(self.machine.pools())
        job = self.random.choice([*jobs, 77])
        paths = jobs[job].paths if job in jobs else set()
        reserved = job in jobs and jobs[job].reserved
        taken = {path for held in jobs.values() if not held.reserved for path in held.paths}
        later = {path for held in jobs.values() if held.reserved for path in held.paths}
        known: list[tuple[str, Callable[[Pool], bool]]] = [
            ("status=up", lambda one: one.is_reached),
            ("status=down", lambda one: not one.is_reached),
            ("sched-now=allocated", lambda one: any(each.path in taken for each in (one, *one.above))),
            ("sched-now=free", lambda one: not any(each.path in taken for each in (one, *one.above))),
            ("sched-future=reserved", lambda one: any(each.path in later for each in (one, *one.above))),
            ("sched-future=free", lambda one: not any(each.path in later for each in (one, *one.above))),
            (f"names={pool.name}", lambda one: one.name == pool.name),
            ("property=ssd", lambda one: "ssd" in one.properties),
            ("property=big@core", lambda one: "big@core" in one.properties),
            (f"jobid-alloc={job}", lambda one: one.path in paths and not reserved),
            (f"jobid-reserved={job}", lambda one: one.path in paths and reserved),
            (f"jobid-tag={job}", lambda one: any(each.path in paths for each in one.walk())),
        ]
        return self.random.choice(known)

    def _check_counts(self) -> None:
        job = self.random.choice([None, *self.ledger.jobs])
        found = self.type("find agfilter=true" if job is None else f"find jobid-tag={job} and agfilter=true")
        known = self.machine.by_path()
        for node in graph(found[0]).get("nodes", []):
            pool = known[node["metadata"]["paths"][self.machine.subsystem]]
            for type_, text in node["metadata"]["agfilter"].items():
                if type_ not in self.ledger.counted:
                    continue
                total = sum(one.size for one in pool.walk() if one is not pool and one.type == type_)
                expected = f"used:{self.ledger.count(pool, type_, job)}, total:{total}"
                require(text == expected, f"{pool.path} counts {type_} as {text}, expected {expected}")

    def status(self) -> None:
        """Mark a pool up or down."""
        pool = self.random.choice(self.machine.pools())
        up = self.random.random() < 0.6
        self.type(f"set-status {pool.path} {'up' if up else 'down'}")
        pool.is_up = up
        require(self.one(f"get-status {pool.path}") == f"{pool.path} is {'up' if up else 'down'}\n", f"the status of {pool.path}")

    def properties(self) -> None:
        """Set a property, and look at all of a pool."""
        pool = self.random.choice(self.machine.pools())
        if self.random.random() < 0.7:
            key, value = self.random.choice([("ssd", "1"), ("big", "x=y"), ("perf_class", "3"), ("perf_class", "?")])
            self.type(f"set-property {pool.path} {key}={value}")
            pool.properties[key] = value
        text = self.one(f"get-property {pool.path}")
        if pool.properties:
            require(
                text == "".join(f"{key}={value}\n" for key, value in sorted(pool.properties.items())), f"{text} of {pool.path}"
            )
        else:
            require(re.fullmatch(r"No properties were found for \S+ \(vtx's uniq_id=\d+\)\.\n", text) is not None, text)

    def update(self) -> None:
        """Import an allocation of a node, or of a part of it."""
        nodes = [pool for pool in self.machine.pools() if pool.type == "node" and pool.children]
        if not nodes or self.machine.subsystem != "containment":
            return
        node = self.random.choice(nodes)
        start, duration = self.random.choice([(0, 10), (0, 1000), (20, 30)])
        job = self.random.randint(1, 60)
        if job in self.ledger.jobs:
            return
        if self.machine.load_format == "rv1exec" and self.random.random() < 0.5:
            children = {type_: sum(child.type == type_ for child in node.children) for type_ in ("core", "gpu")}
            children["core"] = self.random.randint(1, max(children["core"], 1))
            text, reader = random_machine.resource_set([node.rank], children, self.machine.root), "rv1exec"
            named = {f"{node.path}/{type_}{number}" for type_, count in children.items() for number in range(count)}
            taken = {pool.path for pool in node.walk()} if len(named) == len(node.children) else named
        else:
            taken = {pool.path for pool in node.walk()}
            chosen = [*node.walk(), *node.above]
            text, reader = random_machine.document(self.machine.root, chosen, frozenset(taken)), "jgf"
        known = self.machine.by_path()
        is_there = all(path in known for path in taken)
        free = is_there and all(self.ledger.is_free(known[path], start, start + duration) for path in taken)
        found = self.type(f"update allocate {reader} {self.file(text)} {job} {start} {duration}")
        require(len(found) == 1 and found[0].get("JOBID") == str(job), f"{found} to an update of job {job}")
        granted = found[0].get("RESOURCES") is not None
        require(granted == free, f"{node.path} is {'free' if free else 'held'}, and an update of it {found[0].lines}")
        self.next_job = job + 1
        if granted:
            exclusive = {path for path, whole, _ in pools(tree(found[0]), "containment") if whole}
            require(taken <= exclusive, f"{taken - exclusive} are not taken over")
            self.ledger.jobs[job] = Held(start, start + duration, taken, False, self.ledger.counted_now())

    def attach(self) -> None:
        """Add a node with some cores."""
        parents = {pool.parent for pool in self.machine.pools() if pool.type == "node"} - {None}
        if not parents or self.machine.subsystem != "containment":
            return
        parent = self.random.choice(sorted(parents, key=lambda pool: pool.path if pool else ""))
        assert parent
        rank = 1 + max(pool.rank for pool in self.machine.pools())
        node = Pool("node", f"extra{rank}", rank, rank)
        for number in range(self.random.randint(1, 3)):
            node.add(Pool("core", f"core{number}", number, rank))
        parent.add(node)
        chosen = [*node.walk(), *node.above]
        require(
            not self.type(f"attach {self.file(random_machine.document(self.machine.root, chosen, first=1000 * rank))}"), "attach"
        )
        require(not self.one.errors.getvalue(), self.one.errors.getvalue())

    def remove(self) -> None:
        """Remove a node, and what jobs have there."""
        nodes = [pool for pool in self.machine.pools() if pool.type == "node" and pool.parent is not None]
        if len(nodes) < 2 or self.machine.subsystem != "containment":
            return
        node = self.random.choice(nodes)
        self.type(f"remove {node.path} true" if self.random.random() < 0.5 else f"remove {node.rank} false")
        require(not self.one.errors.getvalue(), self.one.errors.getvalue())
        assert node.parent
        gone = {pool.path for pool in node.walk()}
        node.parent.children.remove(node)
        for held in self.ledger.jobs.values():
            held.paths -= gone

    def junk(self) -> None:
        """A line that is not a command, or names something that does not exist: an error, and nothing changes."""
        line = self.random.choice(JUNK).format(
            file=self.file(self.random.choice(["{}", "[", "graph: {nodes: [], edges: []}", "\0"]))
        )
        before = self._allocated()
        for typed in (self.one, self.other):
            if typed is not None:
                typed(line)
        if line.startswith("update allocate jgf"):
            self.next_job = 6 if 5 not in self.ledger.jobs else self.next_job
        self.lines.append(line)
        self._expect("sched-now=allocated", before)

    def give_everything_back(self) -> None:
        """Cancel all jobs; then the complete machine can be granted."""
        for job in list(self.ledger.jobs):
            self.type(f"cancel {job}")
            del self.ledger.jobs[job]
        self._expect("sched-now=allocated or sched-future=reserved", set())
        for pool in self.machine.pools():
            if not pool.is_up:
                self.type(f"set-status {pool.path} up")
                pool.is_up = True
        request = {
            "version": 1,
            "resources": [{"type": self.machine.root.type, "count": 1, "exclusive": True}],
            "tasks": [],
            "attributes": None,
        }
        found = self.type(f"match allocate {self.file(json.dumps(request))}")
        require("RESOURCES=ALLOCATED" in found[0].lines, f"the whole machine is not free: {self.one.errors.getvalue()}")
        got = {path for path, exclusive, _ in pools(graph(found[0]), self.machine.subsystem) if exclusive}
        require(got == set(self.machine.by_path()), "the whole machine is not granted")


def _joined(one: Callable[[Pool], bool], other: Callable[[Pool], bool], either: bool) -> Callable[[Pool], bool]:
    if either:
        return lambda pool: one(pool) or other(pool)
    return lambda pool: one(pool) and other(pool)


def graph(answer: Answer) -> dict[str, Any]:
    """The JGF before a block; empty when there is none."""
    if not answer.text:
        return {}
    found: dict[str, Any] = json.loads(answer.text)["graph"]
    return found


def tree(answer: Answer) -> dict[str, Any]:
    """The JGF before a block, of which all nodes but one have an edge from another."""
    found = graph(answer)
    keys = {node["id"] for node in found["nodes"]}
    targets = {edge["target"] for edge in found["edges"] if edge["source"] in keys}
    require(len(keys - targets) == 1 and targets <= keys, f"{len(keys - targets)} roots in {answer.text[:200]}")
    return found


def pools(found: dict[str, Any], subsystem: str) -> list[tuple[str, bool, int]]:
    """Path, whether exclusively, and units of each node of a graph."""
    shown = [node["metadata"] for node in found.get("nodes", [])]
    return [(one["paths"][subsystem], one.get("exclusive", False), one.get("size", 1)) for one in shown]


def compare(form: str, found: dict[str, Any], text: str, subsystem: str) -> None:
    """Whether another form is equivalent to a graph."""
    if form in ("simple", "pretty_simple"):
        modes = ("s", "x") if form == "simple" else ("shared", "exclusive")
        lines = []
        for path, exclusive, units in pools(found, subsystem):
            lines.append(f"      {'---' * path.count('/')}{path.rpartition('/')[2]}[{units}:{modes[exclusive]}]\n")
        require(text == "".join(lines if form == "simple" else reversed(lines)), f"{form} writes {text!r} for {lines}")
        return
    lite = _lite(found)
    if form == "jgf_shorthand":
        shown = json.loads(text)["graph"] if text else {}
        require(_shortened(found) == shown.get("nodes", []), f"{form} writes {text}")
        return
    if not lite:
        require(not text, f"{form} writes {text!r} without cores and gpus")
        return
    values = json.loads(text)
    entries = values if form == "rlite" else values["execution"]["R_lite"]
    shown_lite = {
        rank: {type_: _ids(ids) for type_, ids in one["children"].items()} for one in entries for rank in _ids(one["rank"])
    }
    require(shown_lite == lite, f"{form} writes {entries} for {lite}")
    if form == "rv1":
        require(values["scheduling"]["graph"] == found, f"{form} writes another graph")
    if form == "rv1_shorthand":
        require(values["scheduling"]["graph"]["nodes"] == _shortened(found), f"{form} writes another graph")


def _lite(found: dict[str, Any]) -> dict[int, dict[str, list[int]]]:
    """Ids of cores and gpus by rank of the node that they come before; ranks of -1 go together."""
    held: dict[int, dict[str, list[int]]] = {}
    waiting: dict[str, list[int]] = {}
    for node in found.get("nodes", []):
        one = node["metadata"]
        if one["type"] in ("core", "gpu"):
            waiting.setdefault(one["type"], []).append(one["id"])
        elif one["type"] == "node" and waiting:
            held[one["rank"]] = {type_: sorted(set(ids)) for type_, ids in waiting.items()}
            waiting = {}
    return held


def _ids(text: str) -> list[int]:
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _shortened(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Nodes without those below one that is exclusive."""
    nodes = found.get("nodes", [])
    whole = {node["id"] for node in nodes if node["metadata"].get("exclusive")}
    above = {edge["target"]: edge["source"] for edge in found.get("edges", [])}

    def kept(key: str) -> bool:
        while key in above:
            key = above[key]
            if key in whole:
                return False
        return True

    return [node for node in nodes if kept(node["id"])]


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Stop anything that takes longer with an exception."""

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"no end in {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def transcript(seed: int, folder: Path) -> tuple[Counter[str], str]:
    """Run one transcript; returns what it did, and the problems with all lines that lead to them."""
    made = None
    try:
        with time_limit(HANG_S):
            made = Transcript(Random(seed), folder)
            made.run()
    except (Exception, TimeoutError) as error:  # noqa: BLE001  # whatever a session raises is a finding
        message = str(error) if isinstance(error, Wrong) else traceback.format_exc()
        typed = "" if made is None else f"{' '.join(made.words)}\n" + "\n".join(made.lines[-12:])
        return Counter(), f"seed {seed}: {message}\n{typed}\n"
    return made.counts, ""


def campaign(seed: int, *, seconds: float = 0.0, transcripts: int = 0) -> tuple[Counter[str], list[str]]:
    """Run transcripts of consecutive seeds for some time, or a number of them; returns counts and findings."""
    counts: Counter[str] = Counter()
    findings: list[str] = []
    end = time.monotonic() + seconds
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        while number < transcripts or time.monotonic() < end:
            found, wrong = transcript(seed + number, Path(folder))
            counts += found
            number += 1
            if wrong:
                findings.append(wrong)
    counts["transcripts"] = number
    return counts, findings


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--transcripts", type=int, default=0, help="run at least this many, whatever the time")
    chosen = parser.parse_args()
    counts, findings = campaign(chosen.seed, seconds=chosen.seconds, transcripts=chosen.transcripts)
    for finding in findings[:20]:
        print(finding)
    print(
        f"seeds {chosen.seed} to {chosen.seed + counts['transcripts'] - 1}:",
        ", ".join(f"{n} {k}" for k, n in sorted(counts.items())),
    )
    print(f"findings: {len(findings)}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
