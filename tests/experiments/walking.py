"""Walk through the schedules of studies, unit by unit (rules A1, A2, F1, N1).

    python -m tests.experiments.walking [data/experiments/power.yaml ...] [--small] [--runs N]

The program records the resources that each job gets from its instance, in units of the machine, until the job ends. From the
auxiliary graphs of the machine it computes what the job draws from which supplier, and through which edge. Then it goes
through time: at no moment is a unit held by two jobs at the leaves, or by two jobs of instances on one level, and no pool and
no edge supplies more than it has. The resources of jobs of an instance are those of the job in which the instance runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fluxres.clock import seconds
from fluxres.documents import yaml_document
from fluxres.experiments import parts, study
from fluxres.graph.structure import Structure
from fluxres.instance import Instance, Job
from fluxres.simulation.simulator import Simulator
from fluxres.simulation.workload.workload import Submission

STUDIES = Path(__file__).parents[2] / "data" / "experiments"


class Suppliers:
    """The suppliers and edges that a pool draws from, computed from the edges of the auxiliary graphs alone."""

    def __init__(self, structure: Structure) -> None:
        self.structure = structure
        self._above: dict[tuple[str, int], list[int]] = {}

    def of(self, kind: str, v: int) -> list[int]:
        """The accounts from which units of a type are drawn for a pool."""
        found = self._above.get((kind, v))
        if found is None:
            found = self._above[kind, v] = sorted(self._find(kind, v))
        return found

    def _find(self, kind: str, v: int) -> Iterator[int]:
        structure = self.structure
        number = structure.types.index(kind)
        edges = {(structure.accounts.edge(e)[1:]): e for e in range(structure.n, structure.accounts.n)}
        for graph in structure.subsystems.values():
            seen, todo = {v}, [v]
            while todo:
                dst = todo.pop()
                above = graph.src[graph.dst == dst].tolist()
                if dst >= structure.tree_end and structure.parent.item(dst) >= 0:
                    above.append(structure.parent.item(dst))
                for src in {*above} - seen:
                    seen.add(src)
                    todo.append(src)
                    if structure.type.item(src) == number:
                        yield src
                    if (src, dst) in edges:
                        yield edges[src, dst]


@dataclass
class Row:
    """The units that a job held over a window in ticks, by account of the machine."""

    job: str
    level: int
    is_leaf: bool
    start: int
    end: int
    units: Counter[int]


@dataclass
class Walk:
    """The observations of a run."""

    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    moments: int = 0
    units: int = 0
    fullest: float = 0.0
    """The largest fraction of a supplier, or of an edge, that was drawn at any moment."""


class Walked(Simulator):
    """A simulation that records each job."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        self.walk = Walk()
        self._given: dict[Job, Counter[int]] = {}
        self._mapped: dict[Instance, tuple[int, list[int]]] = {}
        super().__init__(*args, keep=False, **settings)
        self.top = self.machine.graph.structure
        self.suppliers = Suppliers(self.top)

    def start(self, job: Job) -> None:
        """A job has its resources."""
        try:
            self._note(job)
        except Exception as error:  # noqa: BLE001  # an instance makes an exception of its job of whatever a runner raises
            self.walk.problems.append(f"{_name(job)} has started, and the walker: {error!r}")
        super().start(job)

    def _note(self, job: Job) -> None:
        units = self._units(job)
        above = job.instance.job_in_parent
        if above is not None:
            had = self._given[above]
            for v, amount in units.items():
                if amount > had[v]:
                    self.walk.problems.append(f"{_name(job)} has {amount} of {self.top.where(v)}, its instance {had[v]}")
        self._given[job] = units

    def _over(self, job: Job) -> None:
        units = self._given.pop(job, None)
        if units is not None:
            is_leaf = isinstance(job.payload, Submission)
            drawn = self._draws(job, units) if is_leaf else Counter[int]()
            self.walk.rows.append(Row(_name(job), job.instance.depth, is_leaf, job.started, job.ended, units + drawn))
        super()._over(job)

    def _units(self, job: Job) -> Counter[int]:
        """Pools of the machine's containment tree, including those implied by exclusive ones."""
        structure, numbers = job.instance._graph.structure, self._numbers(job.instance)
        found: Counter[int] = Counter()
        for where, amount in job.instance.inventory.pools(job.claim):
            v = structure.vertex(where)
            if v >= structure.tree_end:
                continue
            found[numbers[v]] += amount
            if amount == structure.size.item(v):
                found.update({numbers[u]: structure.units.item(u) for u in range(v + 1, structure.end.item(v))})
        return found

    def _numbers(self, instance: Instance) -> list[int]:
        """The machine's pool for each pool of an instance."""
        graph = instance._graph
        known = self._mapped.get(instance)
        if known is None or known[0] != graph.generation:
            top = self.machine.graph.structure
            numbers = [top.vertex(graph.structure.uuid(v)) for v in range(graph.structure.tree_end)]
            known = self._mapped[instance] = graph.generation, numbers
        return known[1]

    def _draws(self, job: Job, units: Counter[int]) -> Counter[int]:
        """The draws of a job according to its request: each slot has pools of one type, and a number of drawn units."""
        found: Counter[int] = Counter()
        slot = job.request.resources[0]
        drawn = [one for one in slot.children if self.top.of_type(one.type)[0] >= self.top.tree_end] if slot.is_slot else []
        if not drawn:
            return found
        (what,) = (one for one in slot.children if one not in drawn)
        number = self.top.types.index(what.type)
        for v in [v for v in units if self.top.type.item(v) == number]:
            for one in drawn:
                for supplier in self.suppliers.of(one.type, v):
                    found[supplier] += units[v] * one.count.min // what.count.min
        return found


def _name(job: Job) -> str:
    return f"{job.instance.address}/{job.id}"


def walk(simulator: Walked) -> Walk:
    """Go through the time of a finished run."""
    found, accounts = simulator.walk, simulator.top.accounts
    for level in sorted({row.level for row in found.rows}):
        _sweep(found, accounts, f"level {level}", [row for row in found.rows if row.level == level])
    _sweep(found, accounts, "the leaves", [row for row in found.rows if row.is_leaf])
    return found


def _sweep(found: Walk, accounts: Any, where: str, rows: list[Row]) -> None:
    """Units in use of each account, moment by moment: at one moment, ends come before starts."""
    changes = [
        (v, moment, sign * amount)
        for row in rows
        if row.start < row.end
        for v, amount in row.units.items()
        for moment, sign in ((row.start, 1), (row.end, -1))
    ]
    if not changes:
        return
    account, moment, amount = (np.array(column, np.int64) for column in zip(*changes, strict=True))
    order = np.lexsort((amount, moment, account))
    account, moment, amount = account[order], moment[order], amount[order]
    total = np.cumsum(amount)  # the usage of one account ends before that of the next begins
    over = np.flatnonzero(total > accounts.size[account])
    found.moments += len(np.unique(moment))
    found.units += int(amount[amount > 0].sum())
    outside = account >= accounts.pools.tree_end
    if outside.any():
        found.fullest = max(found.fullest, float((total[outside] / accounts.size[account[outside]]).max()))
    for at in over[:3].tolist():
        v, now = int(account[at]), int(moment[at])
        using = [row.job for row in rows if row.start <= now < row.end and v in row.units]
        found.problems.append(
            f"{where}: {int(total[at])} of {accounts.size.item(v)} units of {accounts.said(v)} at {seconds(now)} s, by {using}"
        )


def simulated(run: study.Run) -> Walked:
    """The finished simulation of a run of a study."""
    machine = parts.machine(run)
    simulator = Walked(
        machine,
        hierarchy=parts.hierarchy(run.page.hierarchy, parts.machine(run).count),
        inventory=run.page.inventory,
        cost=parts.costs(run.page.cost),
    )
    simulator.run(parts.workload(run, machine.count))
    return simulator


def load(path: Path, *, small: bool = False) -> study.Study:
    """A study, or a small variant of it: few jobs, no repeats, and machines and hierarchies of a few nodes."""
    document = yaml_document.load(path)
    if small:
        values: Any = document.values
        values["repeats"], values["expect"] = 1, []
        for one in values["workload"] if isinstance(values["workload"], list) else [values["workload"]]:
            for kind in ("ensemble", "lublin"):
                if kind in one:
                    one[kind] = {**one[kind], "jobs": 60}
        topologies = values["vary"].get("hierarchy.topology") if "vary" in values else None
        if topologies and ("x" in str(topologies[-1]) and max(map(_leaves, topologies)) > 8):
            values["machine"], values["vary"]["hierarchy.topology"] = "node=6/socket=2/core=3", [1, 6, "6x2"]
            values["baseline"] = {"hierarchy.topology": 1}
    return study.of_document(document, path.parent)


def _leaves(topology: object) -> int:
    return int(np.prod([int(number) for number in str(topology).split("x")]))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.experiments.walking", description=__doc__)
    parser.add_argument("studies", nargs="*", type=Path, default=sorted(STUDIES.glob("*.yaml")))
    parser.add_argument("--small", action="store_true", help="small studies of the same kinds")
    parser.add_argument("--runs", type=int, default=sys.maxsize, help="at most this number of each study")
    options = parser.parse_args()
    wrong = 0
    for path in options.studies:
        began, runs, jobs, units, moments, fullest = time.perf_counter(), 0, 0, 0, 0, 0.0
        for run in load(path, small=options.small).runs[: options.runs]:
            found = walk(simulated(run))
            runs, jobs = runs + 1, jobs + sum(row.is_leaf for row in found.rows)
            units, moments, fullest = units + found.units, moments + found.moments, max(fullest, found.fullest)
            wrong += bool(found.problems)
            for text in found.problems[:3]:
                print(f"{run.key}: {text}")
        took = time.perf_counter() - began
        print(
            f"{path.stem}: {runs} runs, {jobs} jobs, {units} units held, {moments} moments,",
            f"suppliers {fullest:.0%} full, {took:.0f} s",
        )
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
