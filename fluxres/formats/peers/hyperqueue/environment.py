"""The variables that HyperQueue gives to a task for what it was given, and those that say which devices a worker has.

A request and what it was allocated go in, names and values come out.  Versions up to 0.12 wrote the amount alone into
``HQ_RESOURCE_REQUEST_…``, later ones write the policy behind it, and programs that read it exist for both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from fluxres.arrays import Int32
from fluxres.errors import UsageError
from fluxres.formats.machine.visible import CUDA, ROCR, words
from fluxres.formats.peers.hyperqueue.request import format_value
from fluxres.formats.peers.instances import label
from fluxres.graph.structure import Structure
from fluxres.match.workers import Amounts, is_sum
from fluxres.model.values import Allocation
from fluxres.syntax.jobspec import Request
from fluxres.syntax.variants import ALL, CPUS, FRACTION_UNIT, PER_UNIT, SHARE, Ask, Variant, format_amount, type_of

_OTHER = re.compile(r"[^A-Za-z0-9]")
_CUDA: Final = ("gpus/nvidia", "gpus")
_DETECTED: Final = {CUDA: "gpus/nvidia", ROCR: "gpus/amd"}


@dataclass(frozen=True, slots=True)
class Grant:
    """What a task was given of one resource.

    Args:
        labels: of the indices, the one it has a fraction of last; None for a sum, which has none.
        amount: ten-thousandths; what `all` came to, else as asked.
    """

    ask: Ask
    labels: tuple[str, ...] | None
    amount: int


def variable(name: str) -> str:
    """The name of a resource inside the name of a variable: every other character becomes an underscore.

    >>> variable("gpus/amd")
    'gpus_amd'
    """
    # Bytes, as there: a letter outside ASCII is as many underscores as it has bytes.
    return _OTHER.sub(lambda other: "_" * len(other[0].encode("utf-8", "surrogatepass")), name)


Pin = Literal["taskset", "omp"]

NODE_FILE: Final = "hq-node-file"
HOST_FILE: Final = "hq-host-file"
"""The files of a task on several nodes, in the folder that it is given."""


def environment(
    request: Request,
    allocation: Allocation,
    *,
    policy: bool = False,
    pin: Pin | None = None,
    user: Mapping[str, str] | None = None,
    ascending: bool = False,
    folder: Path | None = None,
) -> dict[str, str]:
    """The variables of a task for what it was allocated.

    Args:
        request: in the language of HyperQueue.
        allocation: of that request, as `ResourceGraph.allocate` or `ResourceGraph.allocation` returned it.
        policy: whether a request names its policy (since version 0.13) or only the amount.
        pin: how the task is pinned to its cpus.
        user: variables that the task has already; those for OpenMP are not set over them.
        ascending: cpus in the order of the machine, as versions up to 0.12 had them, not in that in which they were chosen.
        folder: where the files with the names of the nodes of a task on several nodes are; :func:`node_files` has their content.

    Source: HyperQueue, resources of jobs.  Errors: UsageError for a request in another language.

    >>> import fluxres
    >>> from fluxres.formats.peers.hyperqueue.read import read_words
    >>> graph = fluxres.ResourceGraph(read_words("cpus=1x4 gpus=[a,b]").structure)
    >>> request = fluxres.Request.parse("gpus=1 cpus=2", format="hyperqueue")
    >>> found = environment(request, graph.allocate(request, job="j"))
    >>> found["HQ_RESOURCE_VALUES_cpus"], found["CUDA_VISIBLE_DEVICES"], found["HQ_RESOURCE_REQUEST_gpus"]
    ('3,2', 'b', '1')
    """
    if not isinstance(request.chooser, Amounts):
        raise UsageError("the request is not in the language of HyperQueue", hint="Request.parse(text, format='hyperqueue')")
    number = 0 if allocation.chosen is None else allocation.chosen.variant
    variants = request.chooser.variants
    variant = variants[min(number, len(variants) - 1)]
    if variant.nodes:
        return _of_nodes(variant, folder)
    made = of_grants(grants(variant, allocation, ascending=ascending), policy=policy, pin=pin, user=user)
    if len(variants) > 1:
        made["HQ_RESOURCE_VARIANT"] = str(number)
    return made


def _of_nodes(variant: Variant, folder: Path | None) -> dict[str, str]:
    files = {} if folder is None else {"HQ_NODE_FILE": str(folder / NODE_FILE), "HQ_HOST_FILE": str(folder / HOST_FILE)}
    return {"HQ_NUM_NODES": str(variant.nodes), **files}


def node_files(allocation: Allocation) -> dict[str, str]:
    """By file name, the content of the files of a task on several nodes: a name in each line, short ones in the node file."""
    structure = allocation.structure
    nodes = [v for v in _in_order(allocation) if structure.kind_of(v).type == "node"]
    names = [label(structure, v) for v in nodes]
    return {
        NODE_FILE: "".join(f"{name.partition('.')[0]}\n" for name in names),
        HOST_FILE: "".join(f"{name}\n" for name in names),
    }


def grants(variant: Variant, allocation: Allocation, *, ascending: bool = False) -> list[Grant]:
    """What a task was given of each resource; `ascending` as for :func:`environment`."""
    structure, (vertices, amounts) = allocation.structure, allocation.held
    types = frozenset(structure.types)
    units = dict(zip(vertices.tolist(), amounts.tolist(), strict=True))
    mine: dict[str, list[int]] = {}
    for v in _in_order(allocation):
        of_share = structure.kind_of(v).type == SHARE
        mine.setdefault(structure.kind_of(structure.parent.item(v) if of_share else v).type, []).append(v)
    found = []
    for ask in variant.asks:
        pools = mine.get(type_of(ask.name, types), [])
        if ascending and ask.name == CPUS:
            pools = sorted(pools)
        kinds = [structure.kind_of(v) for v in pools]
        if pools and kinds[0].type != SHARE and is_sum(structure, _beside(structure, pools[0])):
            total = sum(units[v] for v in pools) * (1 if kinds[0].unit == FRACTION_UNIT else PER_UNIT)
            found.append(Grant(ask, None, total))
            continue
        labels = tuple(
            label(structure, structure.parent.item(v) if k.type == SHARE else v) for v, k in zip(pools, kinds, strict=True)
        )
        total = sum(units[v] if kind.type == SHARE else PER_UNIT for v, kind in zip(pools, kinds, strict=True))
        found.append(Grant(ask, labels, total))
    return found


def _beside(structure: Structure, v: int) -> Int32:
    """The pools of the same type in the same node, or machine without nodes."""
    node = next((u for u in structure.ancestors(v) if structure.kind_of(u).type == "node"), 0)
    pools = structure.of_type(structure.kind_of(v).type)
    return pools[slice(*pools.searchsorted(np.array([node, structure.end.item(node)], np.int32)))]


def _in_order(allocation: Allocation) -> list[int]:
    """The pools in the order in which the request chose them; without such an order, in that of the machine."""
    held: list[int] = [v for v in allocation.held[0].tolist() if v < allocation.structure.n]
    order = () if allocation.chosen is None else allocation.chosen.pools
    here = set(held)
    return [*(v for v in order if v in here), *sorted(here.difference(order))]


def of_grants(
    given: Sequence[Grant],
    *,
    policy: bool = True,
    pin: Pin | None = None,
    user: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables for what was given of each resource; arguments as for :func:`environment`.

    >>> given = Grant(Ask("cpus", 20000), ("3", "2"), 20000)
    >>> of_grants([given])["HQ_RESOURCE_REQUEST_cpus"], of_grants([given], policy=False)["HQ_RESOURCE_REQUEST_cpus"]
    ('2 compact', '2')
    """
    made: dict[str, str] = {}
    own = user or {}
    for grant in given:
        name = variable(grant.ask.name)
        bare = not policy and grant.ask.amount != ALL
        made[f"HQ_RESOURCE_REQUEST_{name}"] = format_amount(grant.ask.amount) if bare else format_value(grant.ask)
        if grant.labels is not None:
            made[f"HQ_RESOURCE_VALUES_{name}"] = ",".join(grant.labels)
            made |= _devices(grant.ask.name, ",".join(grant.labels))
        if grant.ask.name == CPUS:
            made |= _cpus(grant, pin, own)
    return made


def _devices(name: str, labels: str) -> dict[str, str]:
    if name in _CUDA:
        return {CUDA: labels, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {ROCR: labels} if name == "gpus/amd" else {}


def _cpus(grant: Grant, pin: str | None, user: Mapping[str, str]) -> dict[str, str]:
    made: dict[str, str] = {}
    if grant.labels is not None:
        made["HQ_CPUS"] = ",".join(grant.labels)
    if grant.amount % PER_UNIT == 0 and "OMP_NUM_THREADS" not in user:
        made["OMP_NUM_THREADS"] = str(grant.amount // PER_UNIT)
    if pin is not None:
        made["HQ_PIN"] = pin
    if pin == "omp" and grant.labels is not None:
        wanted = {"OMP_PROC_BIND": "close", "OMP_PLACES": "{" + ",".join(grant.labels) + "}"}
        made |= {key: value for key, value in wanted.items() if key not in user}
    return made


def detected(environment: Mapping[str, str], *, seed: bool = False) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The lists of devices that a worker's environment names, and what was wrong with others, in words.

    Args:
        seed: as versions up to 0.12: NVIDIA's devices only, under the name ``gpus``, sorted, repeats dropped.

    >>> detected({"CUDA_VISIBLE_DEVICES": "2,3", "ROCR_VISIBLE_DEVICES": "1,1"})
    ({'gpus/nvidia': ('2', '3')}, ["ROCR_VISIBLE_DEVICES is ignored: '1' is in it twice"])
    """
    found: dict[str, tuple[str, ...]] = {}
    ignored: list[str] = []
    for key, name in _DETECTED.items():
        labels = words(environment.get(key, ""))
        if seed:
            if labels and name == "gpus/nvidia":
                found["gpus"] = tuple(sorted(set(labels), key=lambda label: (len(label), label)))
            continue
        if len(set(labels)) < len(labels):
            again = Counter(labels).most_common(1)[0][0]
            ignored.append(f"{key} is ignored: {again!r:.60} is in it twice")
        elif labels:
            found[name] = tuple(labels)
    return found, ignored
