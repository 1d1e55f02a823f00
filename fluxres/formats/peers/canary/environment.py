"""The variables of a canary test, from its request and what was allocated to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fluxres.errors import UsageError
from fluxres.formats.peers import grants, instances
from fluxres.formats.peers.canary import language, resource_pool
from fluxres.formats.peers.canary.allocator import Checkout, served_from
from fluxres.formats.peers.canary.language import Device, Slots
from fluxres.formats.peers.grants import Granted
from fluxres.formats.peers.inventory import FRACTION_UNIT, FRACTIONS
from fluxres.graph.structure import Structure
from fluxres.match.result import Picked
from fluxres.model import ResourceGraph
from fluxres.model.values import Allocation
from fluxres.syntax.jobspec import Request

Entry = dict[str, str | Slots]
"""node, id and slots of one item."""
_GPUS = "gpus"
POOL_FILE: Final = "FLUXRES_POOL_FILE"
_OPTION: Final = "--resource-pool-file"


def checked_out(request: Request, granted: Granted) -> dict[str, list[Entry]]:
    """What a test has, as canary lists it: by type, the node, the id and the slots of each item, in the order of checkout.

    Errors: UsageError for a request of another system.

    >>> import fluxres
    >>> machine = fluxres.load("canary:gpus=2 cpus=4")
    >>> request = fluxres.Request.parse("gpus=1", format="canary")
    >>> checked_out(request, machine.allocate(request, job="t"))
    {'gpus': [{'node': 'node0', 'id': '0', 'slots': 1}], 'cpus': [{'node': 'node0', 'id': '0', 'slots': 1}]}
    """
    structure = grants.structure_of(granted)
    found: dict[str, list[Entry]] = {}
    names: dict[tuple[int, str], dict[int, str]] = {}
    for _, v, units in _picked(request, granted):
        node = _node_of(structure, v)
        type_name = structure.types[structure.type.item(v)]
        if (node, type_name) not in names:
            some = instances.inside(structure, node, type_name)
            names[node, type_name] = dict(zip(some.tolist(), instances.labels(structure, some), strict=True))
        scale = FRACTIONS if structure.kind_of(v).unit == FRACTION_UNIT else 1
        slots = units // scale if units % scale == 0 else units / scale
        entry: Entry = {"node": instances.label(structure, node), "id": names[node, type_name][v], "slots": slots}
        found.setdefault(instances.word_of(type_name, structure.types), []).append(entry)
    return found


def environment(request: Request, granted: Granted, variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of a test: `CANARY_GPU_IDS` and the like, its own with placeholders filled in, and those that show it its
    GPUs.

    Args:
        variables: those it has already, its own and those around it; what they say of GPUs stays.

    >>> import fluxres
    >>> machine = fluxres.load("canary:gpus=2 cpus=4")
    >>> request = fluxres.Request.parse("gpus=1 cpus=2", format="canary")
    >>> environment(request, machine.allocate(request, job="t"), {"DEVICE": "%(gpu_ids)s"})["DEVICE"]
    '0'
    """
    listed = checked_out(request, granted)
    structure = grants.structure_of(granted)
    made = language.environment({word: [str(each["id"]) for each in some] for word, some in listed.items()}, variables)
    vendors = [
        dict(structure.kind_of(v).properties).get("vendor")
        for _, v, _ in _picked(request, granted)
        if instances.word_of(structure.types[structure.type.item(v)], structure.types) == _GPUS
    ]
    devices = [
        Device(str(each["node"]), str(each["id"]), None if vendor is None else str(vendor))
        for each, vendor in zip(listed.get(_GPUS, []), vendors, strict=True)
    ]
    return language.device_environment(devices, made)


def _picked(request: Request, granted: Granted) -> list[Picked]:
    rule, structure = request.chooser, grants.structure_of(granted)
    if not isinstance(rule, Checkout):
        raise UsageError("this is no request of canary", hint="Request.parse(text, format='canary') reads one")
    if granted.picked:
        return list(granted.picked)
    if any(each.exclusive for each in rule.requests):
        return grants.everything(granted)
    node = instances.nodes(structure)[0]
    items = [
        grants.Item(at, served_from(structure, node, item.type), int(item.slots))
        for at, each in enumerate(rule.requests)
        for item in each.items
        if item.type not in language.NODES
    ]
    return grants.picked(granted, items)


def _node_of(structure: Structure, v: int) -> int:
    nodes = instances.nodes(structure)
    return next(node for node in reversed(nodes) if node <= v)


def pool_file(held: Allocation | ResourceGraph, job: str | None = None) -> str:
    """The resource pool of what a job holds, for `canary --resource-pool-file`: canary hands it out among its tests.

    Args:
        held: an allocation, or a graph and the id of a job in it.

    Errors: UnknownJob; UsageError for a graph without a job.

    >>> import fluxres
    >>> machine = fluxres.load("canary:gpus=2 cpus=8")
    >>> pool_file(machine.allocate("slot=1/gpu=1", job="j"))
    '{"resource_pool":{"nodes":[{"id":"node0","resources":{"gpus":[{"id":"0","slots":1}]}}]}}\\n'
    """
    return resource_pool.write(grants.machine_of(held, job)).data.decode()


def pool_environment(path: str) -> dict[str, str]:
    """The variable that names the file to scripts that run canary, which reads no variable itself; see :func:`with_pool_file`.

    >>> pool_environment("/tmp/pool.json")
    {'FLUXRES_POOL_FILE': '/tmp/pool.json'}
    """
    return {POOL_FILE: path}


def with_pool_file(command: Sequence[str], path: str) -> list[str]:
    """A command with the option that makes `canary` read the file; a command that is not `canary`, or says so itself, is kept.

    >>> with_pool_file(["canary", "run", "."], "/tmp/pool.json")
    ['canary', '--resource-pool-file', '/tmp/pool.json', 'run', '.']
    """
    return grants.with_option(command, "canary", _OPTION, path)
