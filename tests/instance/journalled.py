"""The courses of `meeting` on a graph whose changes are stored.

    python -m tests.instance.journalled --courses 1000 --seed 1

After every step, the events of the machine's graph are replayed on a copy, which must equal it.  Every few steps they are written
to a store, or saved as a document of changes, and what is read back must equal the graph.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import fluxres
from fluxres import ResourceGraph
from fluxres.clock import fixed
from fluxres.store import open_store
from fluxres.store.journal import body, event_of
from tests.instance import meeting

STEPS_KEPT = 5
"""The number of steps after which what is read back is compared."""


def content(graph: ResourceGraph) -> dict[str, Any]:
    """The parts of a graph that a course changes: records, what is implied and drawn, and states."""
    records = graph.records
    return {
        "held": {v: dict(sorted(holders.items())) for v, holders in sorted(records.held.items()) if holders},
        "implied": {
            job: {v: s for v, s in sorted(pools.items()) if s} for job, pools in sorted(records.implied.items()) if pools
        },
        "drawn": sorted(records.drawn.rows()),
        "slots": dict(sorted(records.slots_of.items())),
        "states": graph.structure.state.tolist(),
        "jobs": sorted(records.jobs()),
    }


def require_equal(made: ResourceGraph, graph: ResourceGraph, how: str) -> None:
    found, expected = content(made), content(graph)
    if odd := [f"{key}: {found[key]} and not {expected[key]}" for key in expected if found[key] != expected[key]]:
        raise meeting.Broken(f"{how}: {odd[0]}")
    if problems := made.check():
        raise meeting.Broken(f"{how}: {problems[0].where}: {problems[0].message}")


class Journalled(meeting.Course):
    """A course on a graph that is saved in a store, or in a file and a document of changes.

    Args:
        folder: where to save it.
    """

    def __init__(self, seed: int, speed: float = 0.0, *, folder: Path) -> None:
        super().__init__(seed, speed)
        self.graph = graph = self.machine.graph
        self.is_stored = seed % 2 == 0
        if self.is_stored:
            self.store = open_store(str(folder / f"{seed}.db"))
            self.position = self.store.put("s", graph)
            #: Events that are not in the store yet.
            self.events: list[Any] = []
            graph.sink = self.events.append
            self.began = graph.revision
            self.replayed, self.replays = graph.duplicate(), 0
            self.replayed.clock = fixed(1e6)
        else:
            self.base, self.changes = folder / f"{seed}.json", folder / f"{seed}.changes"
            fluxres.save(graph, self.base)

    def check(self) -> None:
        super().check()
        if self.is_stored:
            self.replay()
        if len(self.log) % STEPS_KEPT == 0:
            self.keep()

    def replay(self) -> None:
        for event in self.events[self.replays :]:
            self.replayed.apply(event_of(body(event)))
        self.replays = len(self.events)
        if self.graph.revision - self.began != len(self.events):
            raise meeting.Broken(f"{len(self.events)} events for {self.graph.revision - self.began} changes")
        require_equal(self.replayed, self.graph, "replayed")

    def keep(self) -> None:
        if self.is_stored:
            self.position = self.store.append("s", self.graph, self.events, self.position)
            self.events.clear()
            self.replays, self.began = 0, self.graph.revision
            require_equal(self.store.load("s", clock=self.graph.clock), self.graph, "read from a store")
        else:
            report = fluxres.save(self.graph, self.changes, changed_only=True)
            if report.events is None:
                raise meeting.Broken(f"all was written: {report.note}")
            require_equal(fluxres.load(self.base, changes=[self.changes]), self.graph, "read from a file and its changes")

    def run(self, steps: int = meeting.STEPS) -> None:
        super().run(steps)
        self.keep()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.instance.journalled", description=__doc__)
    parser.add_argument("--courses", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop-at", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make = partial(Journalled, folder=Path(folder))
        wrong, counts = meeting.run(options.seed, options.courses, stop_at=options.stop_at, aloud=True, make=make)
    print(f"{counts.pop('courses')} courses from seed {options.seed}, {len(wrong)} wrong", dict(counts))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
