"""Workloads of Batsim: JSON with jobs and the profiles they follow.

Batsim computes how long a job takes from its profile and a platform.  A `delay` says it itself; of a parallel profile the
computation of the busiest host is taken at a given speed, and communication, which only a network could tell, is left out and
said so.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.formats.source import Source
from fluxres.simulation.workload import Submission, Workload, name_of
from fluxres.syntax.place import Place, shown

SPEED_FLOPS: Final = 1e9
"""Floating point operations per second of a host, where nobody says."""

_MAX_S: Final = 1e12


def read(source: Source, *, speed_flops: float = SPEED_FLOPS) -> Workload:
    """A workload from Batsim's JSON.

    Args:
        speed_flops: of a host, for parallel profiles.

    Errors: InputError with the line and column of the value.
    """
    document = source.document
    place = Place(position=lambda path: source.where(*document.position(path)))
    given = place.mapping(document.values, required=("jobs", "profiles"))
    profiles = place.at("profiles").mapping(given["profiles"])
    notes: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    run_times: dict[str, int | None] = {}
    found: list[Submission] = []
    for number, job in enumerate(place.at("jobs").sequence(given["jobs"], "a list of jobs")):
        spot = place.at("jobs", number)
        values = spot.mapping(job, required=("id", "profile", "res", "subtime"))
        profile = str(values["profile"])
        if profile not in run_times:
            if profile not in profiles:
                raise spot.at("profile").error(f"no profile {shown(profile)}")
            run_times[profile] = _run(profiles[profile], place.at("profiles", profile), speed_flops, notes)
        run = run_times[profile]
        if run is None:
            left_out["profile without a run time"] += 1
            continue
        limit = values.get("walltime", -1)
        found.append(
            Submission(
                values["id"] if isinstance(values["id"], int) else str(values["id"]),
                _ticks(values["subtime"], spot.at("subtime")),
                max(run, 1),
                _ticks(limit, spot.at("walltime")) if _is_number(limit) and limit > 0 else FOREVER,
                spot.at("res").integer(values["res"]),
                str(values["user"]) if "user" in values else None,
            )
        )
    found.sort(key=lambda job: job.submit)
    hosts = given.get("nb_res")
    processors = hosts if isinstance(hosts, int) and hosts > 0 else None
    return Workload(name_of(source.file), found, processors, left_out=left_out, notes=notes)


def _run(profile: object, place: Place, speed_flops: float, notes: Counter[str]) -> int | None:
    values: Mapping[str, Any] = place.mapping(profile, required=("type",))
    kind = values["type"]
    if kind == "delay":
        return _ticks(values.get("delay"), place.at("delay"))
    if kind in ("parallel", "msg_par", "parallel_homogeneous", "msg_par_hg"):
        cpu = values.get("cpu", 0)
        most = max(cpu, default=0) if isinstance(cpu, list) and all(map(_is_number, cpu)) else cpu
        if not _is_number(most):
            raise place.at("cpu").error(f"expected operations as numbers, got {shown(cpu)}")
        if values.get("com"):
            notes["communication of parallel profiles is left out"] += 1
        return _ticks(most / speed_flops, place.at("cpu"))
    notes[f"profile type {str(kind)[:40]} has no run time"] += 1
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _ticks(value: Any, place: Place) -> int:
    if not _is_number(value) or not 0 <= value <= _MAX_S:
        raise place.error(f"expected seconds from 0 to 10^12, got {shown(value)}")
    ticks: int = round(value * TICKS_PER_S)
    return ticks
