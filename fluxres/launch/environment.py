"""What a program learns about its job: variables for devices and threads, and the CPUs and memory that it is bound to.

A machine that was detected says what its pools are to the system: property `cpus` of a core (an idset of CPU numbers), `vendor`
and `visible` of a GPU. On other machines, the numbers of pools are taken, as far as they can be those of this host.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from fluxres.errors import FluxresError
from fluxres.launch import lifeline
from fluxres.syntax import idset, unit

if TYPE_CHECKING:
    from fluxres.graph.structure import Structure
    from fluxres.model import Allocation, ResourceGraph
    from fluxres.syntax.jobspec import Request

_VARIABLES: Final = {"nvidia": "CUDA_VISIBLE_DEVICES", "amd": "ROCR_VISIBLE_DEVICES", "intel": "ZE_AFFINITY_MASK"}
"""The variable that shows devices to programs, by vendor; that of NVIDIA for others."""
_OTHER: Final = "nvidia"
_MEMORY_UNITS_BYTES: Final = "B"


class Setting(msgspec.Struct):
    """What a job is given, in the terms of the system.

    Args:
        variables: of the environment, in addition to those of the launcher.
        cpus: to bind to; None for no binding.
        memory: NUMA nodes to bind memory to; None for no binding.
        memory_bytes: how much memory was allocated; None if none was.
        notes: what could not be done.
    """

    variables: dict[str, str] = {}
    cpus: tuple[int, ...] | None = None
    memory: tuple[int, ...] | None = None
    memory_bytes: int | None = None
    notes: list[str] = []


def setting(
    graph: ResourceGraph,
    granted: Allocation,
    request: Request | None = None,
    *,
    binds: bool,
    given: Mapping[str, str] = os.environ,
) -> Setting:
    """What a job is given.

    Args:
        granted: what it holds.
        request: that it holds it for; None for pools by name.
        binds: whether it is bound to its cores.
        given: the environment of the launcher.
    """
    made, structure = Setting(), graph.structure
    held = _held(structure, granted)
    cores = [v for v in structure.of_type("core").tolist() if v in held]
    if request is not None:
        own = _of_system(request, granted, given)
        made.variables |= {key: value for key, value in own.items() if given.get(key) != value}
    made.variables |= _devices(structure, _gpus(structure, granted, held), made.variables)
    if cores:
        if "OMP_NUM_THREADS" not in given:
            made.variables["OMP_NUM_THREADS"] = str(len(cores))
        if binds:
            made.cpus = _cpus(structure, cores, made.notes)
            made.memory = _memory_nodes(made.cpus or ())
    amounts = {v: held[v] for v in structure.of_type("memory").tolist() if v in held}
    if amounts:
        made.memory_bytes = _in_bytes(structure, amounts)
        if made.memory_bytes is None:
            made.notes.append("memory is not limited: its unit is not known")
    return made


def _of_system(request: Request, granted: Allocation, given: Mapping[str, str]) -> dict[str, str]:
    """The variables of the system in whose language a request is."""
    user = request.attributes.get("user") if request.attributes else None
    asked = user.get("asked") if isinstance(user, Mapping) else None
    match asked.get("format") if isinstance(asked, Mapping) else None:
        case "canary":
            from fluxres.formats.peers.canary import environment as canary

            return canary.environment(request, granted, given)
        case "ctest":
            from fluxres.formats.peers.ctest import environment as ctest

            return ctest.environment(request, granted)
        case "jqm":
            from fluxres.formats.peers.jqm import jobs as jqm

            return jqm.environment(request, granted)
        case "hyperqueue":
            from fluxres.formats.peers.hyperqueue import environment as hyperqueue

            return hyperqueue.environment(request, granted, policy=True, user=given)
    return {}


def _held(structure: Structure, granted: Allocation) -> dict[int, int]:
    """Units by pool, with those that a whole pool implies."""
    found: dict[int, int] = {}
    for v, amount in zip(*(column.tolist() for column in granted.held), strict=True):
        if v >= structure.n:
            continue  # an edge
        found[v] = amount
        if amount >= structure.size.item(v):
            below = range(v + 1, structure.end.item(v))
            found |= zip(below, structure.size[v + 1 : structure.end.item(v)].tolist(), strict=True)
    return found


def _properties(structure: Structure, v: int) -> dict[str, object]:
    return dict(structure.kinds[structure.kind.item(v)].properties)


def _gpus(structure: Structure, granted: Allocation, held: Mapping[int, int]) -> list[int]:
    """The GPUs of which something is held, in the order in which the request chose them, else in that of the machine."""
    gpus = dict.fromkeys(structure.of_type("gpu").tolist())
    order = () if granted.chosen is None else granted.chosen.pools
    pools = (*(v for v in order if v in held), *sorted(held))
    return [*dict.fromkeys(gpu for v in pools for gpu in (v, structure.parent.item(v)) if gpu in gpus)]  # a share is in its GPU


def _devices(structure: Structure, gpus: Iterable[int], own: Mapping[str, str]) -> dict[str, str]:
    """The variables for GPUs: empty for a vendor of which the machine has devices and the job has none.

    Args:
        gpus: those of the job.
        own: what the system in whose language the request is says; it stays if the machine does not say what its GPUs are called.
    """
    visible: dict[str, dict[str, None]] = {}
    is_named = False
    for v in structure.of_type("gpu").tolist():
        visible.setdefault(_variable(structure, v), {})
        is_named |= "visible" in _properties(structure, v)
    for v in gpus:  # GPUs of several nodes may have one name, and CUDA shows nothing if one is repeated
        visible[_variable(structure, v)][str(_properties(structure, v).get("visible", max(0, structure.id.item(v))))] = None
    made = {name: ",".join(shown) for name, shown in visible.items() if is_named or not own.get(name)}
    if visible.get(_VARIABLES[_OTHER]):
        made["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    return made


def _variable(structure: Structure, v: int) -> str:
    vendor = str(_properties(structure, v).get("vendor") or _OTHER).lower()
    return _VARIABLES.get(vendor, _VARIABLES[_OTHER])


def _cpus(structure: Structure, cores: Iterable[int], notes: list[str]) -> tuple[int, ...] | None:
    """The CPUs of cores, if they are CPUs that this process may use."""
    usable, found = os.sched_getaffinity(0), set[int]()
    units = _units(structure, cores)
    known = _numbers_of_units() if units else {}
    for v in cores:
        said = _properties(structure, v).get("cpus")
        try:
            own = {known.get(number, -1) for number in units[v]} if v in units else {structure.id.item(v)}
            numbers = own if said is None else set(idset.parse(str(said)))
        except FluxresError:
            numbers = set()
        if not numbers or not numbers <= usable:
            notes.append(f"not bound to cores: {structure.where(v)} is no CPU that this process may use")
            return None
        found |= numbers
    return tuple(sorted(found))


def _units(structure: Structure, cores: Iterable[int]) -> dict[int, list[int]]:
    """The processing units of cores by their numbers, on a machine that hwloc has described."""
    units = structure.of_type("pu")
    found = {v: units[units.searchsorted(v) : units.searchsorted(structure.end.item(v))] for v in cores}
    return {v: structure.id[inside].tolist() for v, inside in found.items() if len(inside)}


def _numbers_of_units() -> dict[int, int]:
    """The number that the system gives a processing unit, by that of hwloc; empty without libhwloc."""
    from fluxres.hwloc import Topology

    with suppress(OSError, RuntimeError, NotImplementedError), Topology.from_this_system() as topology:
        return {unit.logical_index: unit.os_index for unit in topology.iter_cpus()}
    return {}


def _memory_nodes(cpus: Iterable[int]) -> tuple[int, ...] | None:
    """The NUMA nodes of CPUs, where there are several; None where binding memory to them would change nothing."""
    wanted, nodes, every = set(cpus), [], 0
    try:
        names = [name for name in os.listdir("/sys/devices/system/node") if name.startswith("node") and name[4:].isdecimal()]
        if len(names) < 2 or not wanted:
            return None
        for name in names:
            with open(f"/sys/devices/system/node/{name}/cpulist", encoding="utf-8") as file:
                here = set(idset.parse(file.read().strip() or "[]"))
            every += bool(here)
            if here & wanted:
                nodes.append(int(name[4:]))
    except (OSError, FluxresError):
        return None
    return tuple(sorted(nodes)) if nodes and len(nodes) < every else None


def _in_bytes(structure: Structure, amounts: Mapping[int, int]) -> int | None:
    """Amounts of pools in bytes; None if the unit of one is none of memory."""
    total = 0
    for v, amount in amounts.items():
        name = structure.kinds[structure.kind.item(v)].unit
        try:
            total += amount * (unit.exactly(f"1{name}", _MEMORY_UNITS_BYTES) if name else 0)
        except FluxresError:
            return None
        if not name:
            return None
    return total


def of_job(job: str, mark: str, store: str, graph: str) -> dict[str, str]:
    """The variables that every job has."""
    return {lifeline.JOB: job, lifeline.RUN: mark, "FLUXRES_STORE": store, "FLUXRES_GRAPH": graph}
