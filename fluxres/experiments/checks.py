"""Check a study before its first run: machines and traces must be readable, and hierarchies must fit.

A misspelt policy must not be found an hour into a campaign.  So each distinct part is built once, and errors are reported at its
line, with the run that they would affect.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec
import orjson

from fluxres.documents import source_text
from fluxres.errors import FluxresError, InfeasibleRequest, InputError, Mistake
from fluxres.experiments import parts
from fluxres.experiments.study import HierarchyEntry, Run, Study
from fluxres.instance import sizes
from fluxres.simulation import exclusions
from fluxres.simulation.adaptive import malleable
from fluxres.simulation.costs.overheads import by_level, require_levels
from fluxres.simulation.energy.feed import with_fleet
from fluxres.simulation.nesting.hierarchy import require_policies

if TYPE_CHECKING:
    from fluxres.simulation.machine import Machine
    from fluxres.simulation.nesting.hierarchy import Hierarchy


_IN_STUDY: Final = "relative paths start in the directory of the study"


def check(study: Study) -> None:
    """Refuse a study with a part that no run could use.

    Cost: reads each machine and each trace once. Errors: InputError with the line of the part.
    """
    seen: dict[bytes, Any] = {}
    first = [run for run in study.runs if not run.repeat]
    checked = [_check_run(seen, study, run) for run in first]
    deepest = max(levels for levels, _ in checked)
    for run, (_, has_instances) in zip(first, checked, strict=True):
        if isinstance(run.page.cost, list):  # of which runs with fewer levels use those that they have
            _once(seen, study, run, "cost", len(run.page.cost), partial(require_levels, len(run.page.cost), deepest))
        if not has_instances:
            _require_policies(seen, study, run, deepest)


def _check_run(seen: dict[bytes, Any], study: Study, run: Run) -> tuple[int, bool]:
    """Refuse a run with a part that it could not use; returns its number of levels, and whether jobs have their own instances."""
    page, entry = run.page, run.workload
    machine: Machine = _once(seen, study, run, "machine", (page.machine, page.unit), lambda: _machine(study, run))
    for name in ("topology", "queue_policy", "match_policy"):  # each by itself, so that the message names its line
        entry_of = HierarchyEntry(**{name: getattr(page.hierarchy, name)})
        each = partial(parts.hierarchy, entry_of, machine.count, run.folder)
        _once(seen, study, run, f"hierarchy.{name}", (entry_of, machine.count), each)
    made = (page.hierarchy, machine.count)
    levels: Hierarchy = _once(
        seen, study, run, "hierarchy", made, lambda: parts.hierarchy(page.hierarchy, machine.count, run.folder)
    )
    _once(seen, study, run, "size_policy", page.size_policy, lambda: sizes.parse(page.size_policy))
    _once(seen, study, run, "resize_policy", page.resize_policy, lambda: malleable.parse(page.resize_policy))
    _once(seen, study, run, "cost", page.cost, lambda: parts.costs(page.cost))
    _once(seen, study, run, "disturbances.events", page.disturbances.events, lambda: parts.events(run))
    disturbed = (page.machine, page.unit, page.disturbances)
    disturbances = _once(seen, study, run, "disturbances", disturbed, lambda: parts.disturbances(run, machine))
    powered = (page.machine, page.unit, page.energy)
    fleet = _once(seen, study, run, "energy", powered, lambda: with_fleet(machine, parts.energy(page.energy))[1])
    accounting = _once(seen, study, run, "accounting", page.accounting, lambda: parts.accounting(run))
    _once(seen, study, run, "prediction", page.prediction, lambda: parts.prediction(run))
    _once(seen, study, run, "feedback", page.feedback, lambda: parts.feedback(run))
    together = exclusions.features(
        levels,
        by_level(parts.costs(page.cost)[: levels.levels], levels.levels),
        has_events=next(iter(disturbances.events), None) is not None,
        on_failure=disturbances.on_failure,
        checkpoint=disturbances.checkpoint,
        accounting=accounting,
        has_prediction=page.prediction is not None,
        has_feedback=page.feedback != "none",
        fleet=fleet,
        resizes=malleable.parse(page.resize_policy).is_needed,
    )
    _require_together(study, run, together)
    fits = (page.machine, page.unit, page.hierarchy)
    _once(seen, study, run, "inventory", (fits, page.inventory), lambda: _inventory(run, machine))
    jobs = (entry, page.hierarchy, machine.count, run.seed if entry.file is None else 0)
    asked = (page.machine, page.unit, entry.request)
    _once(seen, study, run, "workload.request", asked, lambda: _request(run, machine))
    has_requests, has_instances = _once(seen, study, run, "workload", jobs, lambda: _workload(run, machine.count))
    room = (*fits, has_requests)
    _once(seen, study, run, "hierarchy.topology", room, lambda: parts.require_room(machine, levels, has_requests=has_requests))
    return levels.levels, has_instances


def _require_policies(seen: dict[bytes, Any], study: Study, run: Run, deepest: int) -> None:
    """Refuse policies of levels that no run has."""
    for name in ("queue_policy", "match_policy"):
        given = getattr(run.page.hierarchy, name)
        if isinstance(given, list):
            make = partial(require_policies, given, deepest, name.replace("_", " "))
            _once(seen, study, run, f"hierarchy.{name}", (given, deepest), make)


def _once(seen: dict[bytes, Any], study: Study, run: Run, path: str, what: object, make: Callable[[], Any]) -> Any:
    key = path.encode() + orjson.dumps(msgspec.to_builtins(what), option=orjson.OPT_SORT_KEYS)
    if key not in seen:
        try:
            seen[key] = make()
        except FluxresError as error:
            raise placed(study, run, path, error) from None
    return seen[key]


def placed(study: Study, run: Run, path: str, error: FluxresError) -> InputError:
    """An error of a run at its place on the page.

    Args:
        path: of the part that it is about; an error that has a place on the page already keeps it.
    """
    of = f" (run {run.key})" if run.settings else ""
    if isinstance(error, InputError) and error.where.startswith(f"{study.document.file}:"):
        listed = [each._replace(message=f"{each.message}{of}") for each in error.mistakes]
        return InputError.of(listed, error.unlisted, is_all=error.is_all)
    all_of_it = error.mistakes if isinstance(error, InputError) else [Mistake(error.where, error.message, error.hint)]
    listed = []
    for each in all_of_it:
        is_named = each.where == "unit" or path.startswith(each.where.split(":")[0])
        inner = f"{each.where}: " if each.where and not is_named else ""
        where = study.where(run.settings, *("unit" if each.where == "unit" else path).split("."))
        hint = _IN_STUDY if each.hint == source_text.RELATIVE else each.hint
        listed.append(Mistake(where, f"{inner}{each.message}{of}", hint))
    return InputError.of(listed, error.unlisted if isinstance(error, InputError) else 0)


def _machine(study: Study, run: Run) -> Machine:
    return parts.machine(run, study.part(run, "machine") if isinstance(run.page.machine, dict) else None)


def _require_together(study: Study, run: Run, features: set[str]) -> None:
    """Refuse features that exclude each other, at the line of one of them."""
    excluded = exclusions.found(features)
    if excluded is not None:
        places = {"balance": "hierarchy.balance", "cost": "cost" if run.page.cost != "none" else "hierarchy.starts_per_node"}
        raise placed(study, run, places.get(excluded.where, excluded.where), excluded.error())


def _inventory(run: Run, machine: Machine) -> None:
    if run.page.inventory not in ("auto", "graph"):
        from fluxres.instance.choice import make_inventory

        make_inventory(run.page.inventory, machine.graph, "first")


def _request(run: Run, machine: Machine) -> None:
    """Refuse a template whose smallest request the machine can never satisfy; larger ones request more of the same."""
    if run.workload.request is None:
        return
    smallest = parts.asking(run.workload.request, 1)
    if not machine.graph.satisfiable(smallest):
        raise InfeasibleRequest("the machine can never satisfy it, not even for a job of size 1")


def _workload(run: Run, size: int) -> tuple[bool, bool]:
    """Read a trace completely; one job of a model or template is enough.

    Returns whether jobs request more than a number, and whether any has an instance of its own.
    """
    found = parts.workload(run, size)
    next(iter(found), None)
    return found.has_requests, found.has_instances
