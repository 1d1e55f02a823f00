"""A process that changes a store at random and reports each change, for the kill campaign.

Before a change is committed it prints what the store will hold (`try`), after it was committed that it does (`done`).
A state is the fingerprints of all graphs of the store, by name.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from random import Random

import fluxres
from fluxres import clock, limits
from fluxres.errors import FluxresError
from fluxres.model import ResourceGraph
from fluxres.store import Store, attached, files, open_store, writing
from tests.store.graphs import change, fingerprint, machine

MAIN, OTHER = "main", "other"
State = dict[str, str]


class Writer:
    """Random operations on one store.

    Args:
        store: with a graph `main`.
        state: what it holds.
        first: number of the first operation.
        fd: where the lines go.
    """

    def __init__(self, store: Store, state: State, random: Random, first: int, fd: int) -> None:
        self.store, self.state, self.random, self.number, self.fd = store, dict(state), random, first, fd
        self.graph: ResourceGraph | None = None
        self._attached: ResourceGraph | None = None
        self._now_s = 0.0

    def run(self) -> None:
        """One operation after the other, until it is killed."""
        operations = (
            [self.transaction] * 6
            + [self.batch] * 6
            + [self.attached_change] * 6
            + [self.batch_reshape] * 2
            + [self.reshape] * 3
            + [self.apply, self.undo] * 2
            + [self.save_changes] * 4
            + [self.replace, self.put, self.drop]
        )
        while True:
            self.random.choice(operations)()

    def say(self, word: str) -> None:
        line = json.dumps({"word": word, "number": self.number, "state": self.state}) + "\n"
        os.write(self.fd, line.encode())

    def expect(self, **graphs: ResourceGraph | None) -> None:
        """Print what the store will hold after the operation."""
        for name, graph in graphs.items():
            if graph is None:
                self.state.pop(name, None)
            else:
                self.state[name] = fingerprint(graph)
        self.say("try")

    def done(self) -> None:
        self.say("done")
        self.number += 1

    @property
    def command(self) -> str:
        return f"operation {self.number}"

    def transaction(self) -> None:
        with self.store.writing(MAIN, command=self.command) as tx:
            tx.graph.tag(0, "operation", str(self.number))
            for _ in range(self.random.randint(0, 5)):
                change(tx.graph, self.random)
            self.expect(main=tx.graph)
        self.done()

    def reshape(self) -> None:
        with self.store.writing(MAIN, command=self.command) as tx:
            tx.graph.tag(0, "operation", str(self.number))
            try:
                if self.random.random() < 0.5 and len(tx.graph) > 200:
                    tx.graph.unlink(int(self.random.randrange(1, len(tx.graph))))
                else:
                    tx.graph.merge(machine(self.random.randint(3, 8), self.random.randint(1, 20), origin=self.number + 2))
            except FluxresError:
                tx.graph.tag(0, "refused")
            self.expect(main=tx.graph)
        self.done()

    def apply(self) -> None:
        """A description with other racks and nodes; what jobs hold is drained."""
        with self.store.writing(MAIN, command=self.command) as tx:
            tx.graph.tag(0, "operation", str(self.number))
            try:
                wanted = machine(self.random.randint(1, 5), self.random.randint(1, 20), origin=self.number + 2)
                tx.graph.apply(wanted, drain=True)
            except FluxresError:
                tx.graph.tag(0, "refused")
            self.expect(main=tx.graph)
        self.done()

    def undo(self) -> None:
        """Undo a change, as soon as it is made."""
        before = self.store.load(MAIN)
        with self.store.writing(MAIN, command=self.command) as tx:
            tx.graph.tag(0, "operation", str(self.number))
            change(tx.graph, self.random)
            if self.random.random() < 0.5:
                with suppress(FluxresError):
                    tx.graph.apply(machine(self.random.randint(1, 5), 9, origin=self.number + 2))
            self.expect(main=tx.graph)
        self.done()
        self.expect(main=before)
        self.store.undo(MAIN, command=self.command)
        self.done()

    def save_changes(self) -> None:
        """`save --changed-only` of a graph that was loaded before, and of one that was saved before."""
        where = f"{self.store.url}?graph={MAIN}"
        graph = files.load(where)
        for _ in range(2):
            graph.tag(0, "operation", str(self.number))
            change(graph, self.random)
            self.expect(main=graph)
            files.save(graph, where, changed_only=True)
            self.done()

    # -- on a graph that stays attached from one operation to the next --------------------------------------------------

    @property
    def attached(self) -> ResourceGraph:
        if self._attached is None:
            self._attached = fluxres.open(self.store.url, name=MAIN, clock=lambda: self._now_s)
        self._now_s = clock.system()  # time stands still during an operation, so that its outcome is known before
        return self._attached

    def batch(self) -> None:
        graph = self.attached
        with graph.batch(command=self.command):
            graph.tag(0, "operation", str(self.number))
            for _ in range(self.random.randint(0, 5)):
                change(graph, self.random)
            self.expect(main=graph)
        self.done()

    def batch_reshape(self) -> None:
        graph = self.attached
        with graph.batch(command=self.command):
            change(graph, self.random)
            if len(graph) > 200:
                with suppress(FluxresError):
                    graph.unlink(int(self.random.randrange(1, len(graph))))
            else:
                with suppress(FluxresError):
                    graph.merge(machine(self.random.randint(3, 8), self.random.randint(1, 20), origin=self.number + 2))
            graph.tag(0, "operation", str(self.number))
            self.expect(main=graph)
        self.done()

    def attached_change(self) -> None:
        """One change by itself, whose outcome a duplicate tells."""
        graph = self.attached
        graph.refresh()
        seed, before = self.random.randrange(2**32), self.state.get(MAIN)
        told = graph.duplicate()
        told.records.stages_made = graph.records.stages_made
        change(told, Random(seed))
        self.expect(main=told)
        change(graph, Random(seed))
        assert fingerprint(graph) == self.state[MAIN], (before, self.state)
        self.said_without_number()

    def said_without_number(self) -> None:
        """Report a change that the journal has without the number of an operation."""
        line = json.dumps({"word": "done", "number": 0, "state": self.state}) + "\n"
        os.write(self.fd, line.encode())
        self.number += 1

    def replace(self) -> None:
        graph = machine(2, self.random.randint(3, 40), origin=self.number + 2)
        self.expect(main=graph)
        self.store.put(MAIN, graph, replace=True, command=self.command)
        self.done()

    def put(self) -> None:
        graph = machine(1, self.random.randint(1, 9), origin=self.number + 2)
        self.expect(other=graph)
        self.store.put(OTHER, graph, replace=True, command=self.command)
        self.done()

    def drop(self) -> None:
        if OTHER in self.state:
            self.expect(other=None)
            self.store.drop(OTHER, force=True, command=self.command)
            self.done()


def main(url: str, state: State, seed: int, first: int, fd: int, weight_max: int) -> None:
    """Write to the store until killed; snapshots after every `weight_max` pools."""
    writing.WEIGHT_MAX = weight_max  # type: ignore[misc]  # a constant of the store, lowered so that snapshots are killed too
    attached.WEIGHT_MAX = weight_max
    limits.ETCD_LEASE_SECONDS = 2  # type: ignore[misc]  # the next writer need not wait long
    Writer(open_store(url), state, Random(seed), first, fd).run()
