"""Batsim workloads: JSON with jobs and the profiles they follow.

Batsim computes the run time of a job from its profile and a platform.  A `delay` profile states its run time; for a parallel
profile, the computation of the busiest host counts at a given speed, and communication, which depends on a network, is ignored
with a note.  A composed profile consists of its parts in sequence, repeated as often as it specifies.

A job with the keys `sizes` (a count of RFC 14, such as "2-16:2:*") and `speedup`, which its profile may have instead, is
moldable, or malleable with `malleable` and `reconfiguration` (seconds); `res` is its preferred size.  Batsim ignores these keys.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from fluxres.clock import FOREVER, TICKS_PER_S
from fluxres.documents.document import Place, shown
from fluxres.documents.mistakes import Mistakes
from fluxres.documents.source import Source
from fluxres.errors import FluxresError
from fluxres.simulation.adaptive import speedup
from fluxres.simulation.adaptive.adaptive import Adaptive
from fluxres.simulation.workload.workload import Submission, Workload, name_of
from fluxres.syntax import count as counts

SPEED_FLOPS: Final = 1e9
"""Default floating point operations per second of a host."""

_MAX_S: Final = 1e12
_CHARGED: Final = ("user", "account", "qos", "queue", "partition")
"""Further keys of a job, which Batsim ignores."""
_COMPUTING: Final = ("parallel", "msg_par", "parallel_homogeneous", "msg_par_hg")
_SHARING: Final = ("parallel_homogeneous_total", "msg_par_hg_tot")
_COMPOSED: Final = ("composed", "sequence")
_DEPTH_MAX: Final = 8


def read(source: Source, *, speed_flops: float = SPEED_FLOPS) -> Workload:
    """A workload from Batsim's JSON.

    Args:
        speed_flops: of a host, for parallel profiles.

    Errors: InputError with all mistakes, each with line and column of the value.
    """
    document = source.document
    place = Place(document=document)
    given = place.mapping(document.values, required=("jobs", "profiles"))
    profiles = place.at("profiles").mapping(given["profiles"])
    notes: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    run_times = _RunTimes(profiles, place.at("profiles"), speed_flops, notes)
    found: list[Submission] = []
    mistakes = Mistakes()
    with mistakes.all():
        for number, job in enumerate(place.at("jobs").sequence(given["jobs"], "a list of jobs")):
            with mistakes:
                made = _submission(job, place.at("jobs", number), profiles, run_times)
                if made is None:
                    left_out["profile without a run time"] += 1
                else:
                    found.append(made)
    found.sort(key=lambda job: job.submit)
    machine = given.get("nb_res")
    processors = machine if isinstance(machine, int) and machine > 0 else None
    return Workload(name_of(source.file), found, processors, left_out=left_out, notes=notes)


def _submission(job: object, spot: Place, profiles: Mapping[str, Any], run_times: _RunTimes) -> Submission | None:
    """A job; None if its profile has no run time."""
    values = spot.mapping(job, required=("id", "profile", "res", "subtime"))
    profile = str(values["profile"])
    hosts = spot.at("res").integer(values["res"])
    if profile not in profiles:
        raise spot.at("profile").error(f"no profile {shown(profile)}")
    run = run_times.of(profile, hosts)
    if run is None:
        return None
    limit = values.get("walltime", -1)
    adaptive = _adaptive(values, profiles[profile], hosts, spot) if "sizes" in values else None
    fields: dict[str, Any] = {key: str(values[key]) for key in _CHARGED if key in values}
    return Submission(
        values["id"] if isinstance(values["id"], int) else str(values["id"]),
        _ticks(values["subtime"], spot.at("subtime")),
        max(run, 1),
        _ticks(limit, spot.at("walltime")) if _is_number(limit) and limit > 0 else FOREVER,
        hosts,
        adaptive=adaptive,
        **fields,
    )


def _adaptive(job: Mapping[str, Any], profile: Any, hosts: int, place: Place) -> Adaptive:
    """The sizes of a job; a profile whose computation is shared by the hosts has a linear speed-up by default."""
    usual = "linear" if profile.get("type") in _SHARING else None
    model = job.get("speedup", profile.get("speedup", usual))
    if model is None:
        raise place.error("a job with sizes needs 'speedup', or a profile with it", "such as amdahl:serial=0.05")
    try:
        sizes = counts.parse(job["sizes"])
    except FluxresError as error:
        raise place.at("sizes").error(error.message, error.hint) from None
    if hosts not in sizes:
        raise place.at("res").expected(f"one of the sizes {sizes}", hosts)
    try:
        found = speedup.parse(model)
    except FluxresError as error:
        raise place.at("speedup").error(error.message, error.hint) from None
    is_malleable = place.at("malleable").boolean(job.get("malleable", False))
    return Adaptive(sizes, hosts, found, is_malleable, _ticks(job.get("reconfiguration", 0), place.at("reconfiguration")))


class _RunTimes:
    """Run times of profiles.

    Args:
        profiles: of the workload, as in the document.
        place: of the profiles in the document.
        notes: counts what could not be used as it is.
    """

    def __init__(self, profiles: Mapping[str, Any], place: Place, speed_flops: float, notes: Counter[str]) -> None:
        self.profiles = profiles
        self.place = place
        self.speed_flops = speed_flops
        self.notes = notes
        self._found: dict[tuple[str, int], int | None] = {}

    def of(self, name: str, hosts: int, outer: tuple[str, ...] = ()) -> int | None:
        """Run time in ticks of a profile on a number of hosts; None if it has none.

        Args:
            outer: the composed profiles that contain it.

        Errors: InputError for a mistake in it, when it is asked for the first time.
        """
        if (name, hosts) not in self._found:
            self._found[name, hosts] = None
            self._found[name, hosts] = self._of(name, hosts, outer)
        return self._found[name, hosts]

    def _of(self, name: str, hosts: int, outer: tuple[str, ...]) -> int | None:
        place = self.place.at(name)
        values: Mapping[str, Any] = place.mapping(self.profiles[name], required=("type",))
        kind = values["type"]
        if kind == "delay":
            return _ticks(values.get("delay"), place.at("delay"))
        if kind in _COMPUTING or kind in _SHARING:
            return self._computing(values, place, hosts if kind in _SHARING else 1)
        if kind in _COMPOSED:
            return self._composed(values, place, hosts, (*outer, name))
        self.notes[f"profile type {str(kind)[:40]} has no run time"] += 1
        return None

    def _computing(self, values: Mapping[str, Any], place: Place, parts: int) -> int:
        cpu = values.get("cpu", 0)
        most = max(cpu, default=0) if isinstance(cpu, list) and all(map(_is_number, cpu)) else cpu
        if not _is_number(most):
            raise place.at("cpu").error(f"expected operations as numbers, got {shown(cpu)}")
        if values.get("com"):
            self.notes["communication of parallel profiles is ignored"] += 1
        return _ticks(most / parts / self.speed_flops, place.at("cpu"))

    def _composed(self, values: Mapping[str, Any], place: Place, hosts: int, outer: tuple[str, ...]) -> int | None:
        times = place.at("repeat").integer(values.get("repeat", values.get("nb", 1)))
        total = 0
        for number, part in enumerate(place.at("seq").sequence(values.get("seq"), "a list of profiles")):
            spot = place.at("seq", number)
            if str(part) not in self.profiles:
                raise spot.error(f"no profile {shown(part)}")
            if str(part) in outer or len(outer) > _DEPTH_MAX:
                raise spot.error(f"profile {shown(part)} would contain itself, or be nested in more than {_DEPTH_MAX} others")
            found = self.of(str(part), hosts, outer)
            if found is None:
                return None
            total += found
        return _ticks(total * times / TICKS_PER_S, place.at("seq"))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _ticks(value: Any, place: Place) -> int:
    if not _is_number(value) or not 0 <= value <= _MAX_S:
        raise place.error(f"expected seconds from 0 to 10^12, got {shown(value)}")
    ticks: int = round(value * TICKS_PER_S)
    return ticks
