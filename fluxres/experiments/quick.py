"""A study from the words of a command line: one workload under several queue policies, or several seeds of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml

from fluxres.documents import yaml_document
from fluxres.errors import UsageError
from fluxres.experiments.study import Study, of_document
from fluxres.simulation.costs import overheads
from fluxres.simulation.costs.cost import TERMS, Fitted, Measured, parse
from fluxres.simulation.disturbances import attempts, failures
from fluxres.simulation.energy import energy
from fluxres.simulation.energy.power_saving import ALWAYS_ON
from fluxres.simulation.nesting.hierarchy import by_level
from fluxres.simulation.workload import adapted, reading
from fluxres.syntax.registry import split


def study_of(
    workload: str,
    policies: Sequence[str],
    *,
    machine: str,
    unit: str | None = None,
    options: Mapping[str, Any],
    repeats: int = 1,
    seed: int = 0,
) -> Study:
    """The study that compares policies, the first of them as the baseline.

    Args:
        workload: a file or a model with its parameters.
        policies: of queues, by level as `easy:fcfs`.
        machine: a number, a shape or a source.
        options: of `fluxres simulate`: `hierarchy`, `boot`, `ahead`, `larger`, `balance`, `elastic`, `match_policy`, `costs`,
            `inventory`, `size_policy`, `resize_policy`, `event_order`, `accounting`, `energy`, `power_saving`, `power_cap`,
            `prediction`, `adaptive`, `speedup`, `corrector`, `feedback`, `estimates`, `estimates_for`,
            `processors`, `overheads`, `starts_per_node`, `cut`; None for the default.

    Errors: UsageError for a policy that is given twice; those of a study.
    """
    short = workload.rpartition("/")[2]
    levels = [list(by_level(each)) for each in policies]
    names = [each[0] if len(each) == 1 else each for each in levels]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise UsageError(f"queue policy {repeated} is given twice")
    hierarchy = {
        "topology": options.get("hierarchy") or "1",
        "match_policy": list(by_level(options.get("match_policy") or "first")),
        "boot_s": options.get("boot") or 0.0,
        "ahead": options.get("ahead"),
        "larger": options.get("larger"),
        "balance": options.get("balance"),
        "elastic": options.get("elastic"),
        "starts_per_node": options.get("starts_per_node"),
    }
    values: dict[str, Any] = {
        "fluxres-experiment": 1,
        "name": short.partition(":")[0],
        "title": f"{short} under {', '.join(policies)}" if len(policies) > 1 else short,
        "machine": int(machine) if machine.isdecimal() else str(Path(machine).resolve()) if Path(machine).exists() else machine,
        "unit": unit,
        "inventory": options.get("inventory") or "auto",
        "size_policy": options.get("size_policy") or "requested",
        "resize_policy": options.get("resize_policy") or "none",
        "workload": _entry(workload, options),
        "hierarchy": {key: value for key, value in hierarchy.items() if value is not None},
        "cost": _costs(options.get("costs") or (), options.get("overheads") or ()),
        "event_order": options.get("event_order") or "sequential",
        "disturbances": _disturbances(options),
        "energy": _energy(options),
        "prediction": _prediction(options),
        "feedback": options.get("feedback"),
        "accounting": None if options.get("accounting") is None else str(Path(options["accounting"]).resolve()),
        "repeats": repeats,
        "seed": seed,
        "vary": {"hierarchy.queue_policy": names},
        "labels": {"hierarchy.queue_policy": "queue policy"},
        "baseline": {"hierarchy.queue_policy": names[0]} if len(names) > 1 else None,
    }
    text = yaml.safe_dump({key: value for key, value in values.items() if value is not None}, sort_keys=False)
    return of_document(yaml_document.load(text.encode()), Path.cwd())


def _entry(workload: str, options: Mapping[str, Any]) -> dict[str, Any]:
    return _source(workload, options) | _adaptive(options)


def _adaptive(options: Mapping[str, Any]) -> dict[str, Any]:
    if options.get("adaptive") is None and options.get("speedup") is None:
        return {}
    how = asdict(adapted.parse(options.get("adaptive") or "moldable", options.get("speedup") or ""))
    return {"adaptive": {{"least": "min", "most": "max"}.get(name, name): value for name, value in how.items()}}


def _source(workload: str, options: Mapping[str, Any]) -> dict[str, Any]:
    name, rest = split(workload)
    both: dict[str, Any] = {"cut": bool(options.get("cut"))}
    if options.get("estimates") is not None:
        both |= {"estimates": options["estimates"], "estimates_for": options.get("estimates_for") or "all"}
    if name == "resample" or (name not in reading.MODELS.built_in and reading.is_model(name)):
        return {"model": workload, **both}
    if name not in reading.MODELS.built_in:
        return {"file": str(Path(workload).resolve()), **both, "processors": options.get("processors") or "requested"}
    given, days = reading.model_values(name, rest)
    return {name: given | ({"days": days} if days else {}), **both}


def _prediction(options: Mapping[str, Any]) -> dict[str, str] | None:
    found = {"predictor": options.get("prediction"), "corrector": options.get("corrector")}
    return {name: value for name, value in found.items() if value is not None} or None


def _costs(costs: Sequence[str], others: Sequence[str]) -> Any:
    """The costs by level; one for all levels, if there is one."""
    number = max(len(costs), len(others), 1)
    words = [*costs, *[costs[-1] if costs else "none"] * (number - len(costs))]
    found = [_cost(text) for text in words]
    if others:
        given = [overheads.parse(text) for text in others]
        given += [given[-1]] * (number - len(given))
        found = [({} if own == "none" else own) | _overheads(each) for own, each in zip(found, given, strict=True)]
    return found if number > 1 else found[0]


def _overheads(given: overheads.Overheads) -> dict[str, Any]:
    values = {name: value for name, value in asdict(given).items() if value}
    boot = {name: values.pop(name) for name in ("spawn_s", "messages", "message_s") if name in values}
    return values | ({"boot": boot} if boot else {})


def _cost(text: str) -> Any:
    found = parse(text)
    if isinstance(found, Measured):
        return {"measured": {"factor": found.factor, "passes": found.passes, "calibrate": found.calibrates}}
    if isinstance(found, Fitted):
        own = {f"{name}_s": value for name, value in zip(TERMS, found.terms, strict=True)}
        return {"fitted": own | ({} if found.seen is None else {"seen": str(found.seen)})}
    return "none" if found is None else {"model": text}


def _disturbances(options: Mapping[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] = {}
    if options.get("events") is not None:
        found["events"] = str(Path(options["events"]).resolve())
    if options.get("failures") is not None:
        found["failures"] = {name: value for name, value in asdict(failures.parse(options["failures"])).items() if name != "seed"}
    if options.get("checkpoint") is not None:
        found["checkpoint"] = {name: value for name, value in asdict(attempts.parse(options["checkpoint"])).items() if value}
    if found and options.get("on_failure"):
        found["on_failure"] = options["on_failure"]
    return found or None


def _energy(options: Mapping[str, Any]) -> dict[str, Any] | str | None:
    given = energy.of_options(options.get("energy"), options.get("power_saving"), options.get("power_cap"))
    if not isinstance(given, energy.Energy):
        return given
    found: dict[str, Any] = {}
    if given.node is not None:
        found = {name: value for name, value in asdict(given.node).items() if value is not None}
    if given.saving is not ALWAYS_ON:
        found["saving"] = asdict(given.saving)
    if given.cap is not None:
        found["cap"] = [{"at_s": at_s, "watts": watts} for at_s, watts in given.cap.steps]
    return found
