"""The courses of the campaign over nesting, on a graph whose changes are kept.

    python -m tests.instance.journalled --courses 1000 --seed 1

After every step, what was told of the machine's graph makes the same of another one.  Every few steps it is written to a
store, or saved as a document of changes, and what is read back has to equal the graph.
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
"""Steps after which what was read back is compared."""


def content(graph: ResourceGraph) -> dict[str, Any]:
    """What happens to a graph in a course: who holds what, by itself or implied, what is drawn for what, and states."""
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
    theirs, ours = content(made), content(graph)
    if odd := [f"{key}: {theirs[key]} and not {ours[key]}" for key in ours if theirs[key] != ours[key]]:
        raise meeting.Broken(f"{how}: {odd[0]}")
    if problems := made.check():
        raise meeting.Broken(f"{how}: {problems[0].where}: {problems[0].message}")


class Journalled(meeting.Course):
    """A course on a graph that is kept in a store; or in a file, and a document of what has changed since.

    Args:
        folder: for what is kept.
    """

    def __init__(self, seed: int, speed: float = 0.0, *, folder: Path) -> None:
        super().__init__(seed, speed)
        self.graph = graph = self.machine.graph
        self.is_stored = seed % 2 == 0
        if self.is_stored:
            self.store = open_store(str(folder / f"{seed}.db"))
            self.position = self.store.put("s", graph)
            #: What is not in the store yet.
            self.told: list[Any] = []
            graph.sink = self.told.append
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
        for event in self.told[self.replays :]:
            self.replayed.apply(event_of(body(event)))
        self.replays = len(self.told)
        if self.graph.revision - self.began != len(self.told):
            raise meeting.Broken(f"{len(self.told)} events were told, and {self.graph.revision - self.began} changes made")
        require_equal(self.replayed, self.graph, "replayed")

    def keep(self) -> None:
        if self.is_stored:
            self.position = self.store.append("s", self.graph, self.told, self.position)
            self.told.clear()
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
