"""What else changes a store while clients do: an instance, a child that works through the servers, and a program on the store.

Each knows what must be there in the end, since a request that was answered is done, and none is done twice. A campaign
(`tests.service.kills --standby --mixed`) lets them work while servers are killed and stopped.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

import fluxres
from fluxres.errors import FluxresError, InsufficientResources, StoreBusy
from fluxres.store import open_store, upkeep


class Others:
    """An instance, a child and a direct writer on the graph `demo` of one store.

    Args:
        store: its URL.
        urls: of the servers.

    Attributes:
        done: what was acknowledged.
        errors: what none of them should get.
    """

    def __init__(self, store: str, urls: str, random: Random) -> None:
        self._store, self._urls, self._random = store, urls, random
        self._end = threading.Event()
        self.done, self.errors = Counter[str](), list[str]()
        self._held = set[str]()
        self._submitted = set[str]()
        kinds = (self._write, self._schedule, self._nest)
        self._threads = [threading.Thread(target=self._work, args=(kind,)) for kind in kinds]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _work(self, kind: Callable[[], None]) -> None:
        try:
            kind()
        except (FluxresError, OSError) as error:
            self.errors.append(f"{kind.__name__}: {type(error).__name__}: {error}")

    def _write(self) -> None:
        """Change the store itself; no server has a part in that."""
        store, number = open_store(self._store, clock=fluxres.clock.system), 0
        while not self._end.wait(self._random.uniform(0.05, 0.3)):
            with suppress(InsufficientResources, StoreBusy), store.writing("demo", wait_s=60) as transaction:
                if len(self._held) < 3:
                    number += 1
                    transaction.graph.allocate("slot=1/core", job=f"d-{number}")
                else:
                    transaction.graph.free(self._random.choice(sorted(self._held)))
            self._held = {job for job in transaction.graph.jobs() if job.startswith("d-")}
            self.done["direct"] += 1

    def _schedule(self) -> None:
        """Submit jobs to an instance, and report their ends."""
        with fluxres.connect(self._urls, graph="demo", timeout_s=20.0) as graph:
            top = graph.create_instance("main", queue_policy="easy")
            while not self._end.wait(self._random.uniform(0.0, 0.1)):
                self._submitted.add(str(top.submit("slot=1/core", duration_s=3600).id))
                self.done["submitted"] += 1
                for job in [job for job in top.jobs() if job.state.name == "RUN"][1:]:
                    top.finish(job.id)
                    self.done["finished"] += 1

    def _nest(self) -> None:
        """Begin a child, let it grow and shrink, and end it."""
        number = 0
        while not self._end.wait(self._random.uniform(0.0, 0.1)):
            number += 1
            try:
                with fluxres.open_child(
                    self._urls, graph="demo", job=f"k-{number}", wanted="slot=2/core", timeout_s=20.0
                ) as child:
                    child.graph.allocate("slot=1/core", job="inner", duration_s=3600)
                    with suppress(InsufficientResources):
                        (grown,) = child.grow("slot=1/core")
                        child.shrink(grown)
                        self.done["grown and shrunk"] += 1
                    child.graph.free("inner")
                self.done["children"] += 1
            except InsufficientResources:
                time.sleep(0.05)

    def problems(self) -> list[str]:
        """What the store has otherwise than was acknowledged, with servers that run."""
        jobs = set(open_store(self._store).load("demo").jobs())
        found = [*self.errors, *map(str, upkeep.check(open_store(self._store))[1])]
        found += [f"direct: {job}" for job in {job for job in jobs if job.startswith("d-")} ^ self._held]
        found += [f"{job} of a child that has ended" for job in jobs if job.startswith("k-")]
        with fluxres.connect(self._urls, graph="demo", timeout_s=20.0) as graph:
            top = graph.instance("main")
            found += [f"instance: {problem}" for problem in top.check()]
            found += [f"job {job} of the instance" for job in {str(job.id) for job in top.jobs()} ^ self._submitted]
        return found
