"""canary's checkout as the rule of a request: the node with the most room, and on it the fullest instance that suffices.

No policy of the matcher chooses like this: slots are packed within a node while nodes are filled evenly, room is measured over
the requested types only, and the slots of one item come from one instance, so a request that fits by its totals may still be
refused. What is free is read from the graph, and what is checked out is an ordinary allocation; there is no other state.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fluxres.arrays import Int32
from fluxres.documents.document import shown
from fluxres.errors import InfeasibleRequest, InputError, InsufficientResources, LimitExceeded, NotHeld, UsageError
from fluxres.formats.peers import instances
from fluxres.formats.peers.canary import language
from fluxres.formats.peers.canary.language import NODES, NodeRequest, Slots, plural
from fluxres.formats.peers.inventory import EMPTY, FRACTIONS, NESTED
from fluxres.graph.structure import Structure
from fluxres.match.chooser import COMBINATIONS_MAX, Alternative, Choice, Chooser, Offer
from fluxres.match.result import Picked
from fluxres.syntax.variants import type_of

if TYPE_CHECKING:
    from fluxres.match.situation import Situation
    from fluxres.match.typology import Typology
    from fluxres.model import ResourceGraph
    from fluxres.syntax.jobspec import Request


@dataclass(frozen=True, slots=True)
class Checkout(Chooser):
    """The rule of a request: what a test needs on each of its nodes.

    The largest request chooses first, and each has a node of its own: of those with enough by totals the one where most is left,
    the first at a tie.  A request that is exclusive takes all that is left of its node.

    >>> from fluxres.formats.peers.canary.language import Item
    >>> Checkout((NodeRequest((Item("gpus", 1),)),)).words
    ['gpus']
    """

    requests: tuple[NodeRequest, ...]

    @property
    def words(self) -> list[str]:
        """The types that it asks for, as written."""
        items = (item for request in self.requests for item in request.items)
        return list(dict.fromkeys(item.type for item in items if item.type not in NODES))

    def asked(self, request: Request, typology: Typology) -> Request:
        return request

    def choose(self, offer: Offer) -> Choice | None:
        chosen = self._nodes(offer)
        if chosen is None:
            return None
        picked: list[Picked] = []
        for at, (request, node) in enumerate(chosen):
            taken = node.taken(offer.situation, request)
            if taken is None:
                return None
            picked += [Picked(at, v, units) for v, units in taken]
        whole = [node.vertex for request, node in chosen if node.is_whole(offer.situation, request)]
        return Choice(picked, len(chosen), tuple(sorted(whole)))

    def alternatives(self, request: Request, offer: Offer) -> list[Alternative]:
        return [Alternative(partial(self._lacks, offer), request)]

    def _lacks(self, offer: Offer) -> list[str]:
        nodes, several = self._nodes(offer), len(self.requests) > 1
        words = " and ".join(self.words) or "anything"
        if nodes is None and self._nodes(offer, supplied=False) is not None:
            which = "the nodes" if several else "each node"
            return [f"the suppliers of {which} with enough free slots of {words} have too little left"]
        if nodes is None:
            return [f"{f'no {len(self.requests)} nodes have' if several else 'no node has'} enough free slots of {words}"]
        for request, node in nodes:
            if not request.exclusive and node.items(request) is None:
                where = offer.situation.structure.where(node.vertex)
                return [f"{where} has enough free slots of {words}, but not on single instances"]
        return ["nothing is left of a node that is requested exclusively"]

    def _nodes(self, offer: Offer, *, supplied: bool = True) -> list[tuple[NodeRequest, _Node]] | None:
        """A node for each request, the largest request first; None if one finds none.

        Where suppliers are short for a node, the one with the next most room has its turn.

        Args:
            supplied: ask the suppliers.

        Errors: LimitExceeded, undecided, after many combinations of nodes.
        """
        situation = offer.situation
        nodes = {v: _Node(situation, v, self.words) for v in instances.nodes(situation.structure)}
        requests = sorted(self.requests, key=lambda request: -sum(item.slots for item in request.items))
        found: list[tuple[NodeRequest, _Node]] = []
        drawing: list[tuple[int, int]] = []
        marks: list[int] = []
        tried: list[Iterator[_Node]] = []
        for _ in range(COMBINATIONS_MAX):
            if len(found) == len(requests):
                return found
            request = requests[len(found)]
            if len(tried) == len(found):
                used = {node.vertex for _, node in found}
                rooms = {v: room for v, node in nodes.items() if v not in used and (room := node.room(request)) is not None}
                if not rooms:
                    return None
                tried.append(iter([nodes[v] for v in sorted(rooms, key=lambda v: -rooms[v])]))
            node = next(tried[-1], None)
            if node is None:
                tried.pop()
                if not found:
                    return None
                found.pop()
                del drawing[marks.pop() :]
                continue
            takes = node.pools(situation, request)
            if not supplied or offer.is_supplied([*drawing, *takes]):
                found.append((request, node))
                marks.append(len(drawing))
                drawing += takes
        raise LimitExceeded(
            f"undecided after {COMBINATIONS_MAX} combinations of nodes", where="suppliers", hint="request fewer nodes"
        )


class _Node:
    """The free slots of the instances of one node, in ten-thousandths, by the type that a request means."""

    def __init__(self, situation: Situation, vertex: int, words: Sequence[str]) -> None:
        structure = situation.structure
        self.vertex = vertex
        self._types = {word: served_from(structure, vertex, word) for word in words}
        self._free: dict[str, dict[int, int]] = {}
        self._scale: dict[int, int] = {}
        for type_name in dict.fromkeys(self._types.values()):
            vertices = instances.inside(structure, vertex, type_name)
            scale = instances.scale(structure, vertices)
            free = instances.free(situation, vertices) * (FRACTIONS // scale)
            self._free[type_name] = dict(zip(vertices.tolist(), free.tolist(), strict=True))
            self._scale.update(zip(vertices.tolist(), scale.tolist(), strict=True))

    def room(self, request: NodeRequest) -> int | None:
        """How much of the requested types would be left (squared); None if there is not enough."""
        needed: dict[str, int] = {}
        for item in request.items:
            if item.type not in NODES:
                type_name = self._types[item.type]
                needed[type_name] = needed.get(type_name, 0) + _parts(item.slots)
        room = 0
        for type_name, slots in needed.items():
            rest = sum(self._free[type_name].values()) - slots
            if rest < 0 or not self._free[type_name]:
                return None
            room += rest * rest
        return room

    def items(self, request: NodeRequest) -> list[tuple[int, int]] | None:
        """The pool of each item and the units of it: the fullest that suffices; None if one fits nowhere."""
        free = {type_name: dict(known) for type_name, known in self._free.items()}
        found = []
        for item in request.items:
            if item.type in NODES:
                continue
            known, slots = free[self._types[item.type]], _parts(item.slots)
            fitting = [v for v, left in known.items() if left >= slots and slots * self._scale[v] % FRACTIONS == 0]
            if not fitting:
                return None
            v = min(fitting, key=known.__getitem__)
            known[v] -= slots
            found.append((v, slots * self._scale[v] // FRACTIONS))
        return found

    def taken(self, situation: Situation, request: NodeRequest) -> list[tuple[int, int]] | None:
        """What the request gets here: pools and units; None if there is nothing left for it, or an item fits nowhere."""
        return self.everything(situation) or None if request.exclusive else self.items(request)

    def is_whole(self, situation: Situation, request: NodeRequest) -> bool:
        """Whether the request gets the node itself."""
        return request.exclusive and situation.is_clear(self.vertex)

    def pools(self, situation: Situation, request: NodeRequest) -> list[tuple[int, int]]:
        """What the request allocates here, with units."""
        if self.is_whole(situation, request):
            return [(self.vertex, situation.size[self.vertex])]
        return self.taken(situation, request) or []

    def everything(self, situation: Situation) -> list[tuple[int, int]]:
        """All that is left of the node: pools and units."""
        vertices = np.array(instances.everything(situation.structure, self.vertex), np.int32)
        free = instances.free(situation, vertices)
        return [(v, units) for v, units in zip(vertices.tolist(), free.tolist(), strict=True) if units]


def _parts(slots: Slots) -> int:
    return round(slots * FRACTIONS)


def served_from(structure: Structure, node: int, word: str) -> str:
    """The graph type that a word means on a node: that type or, if the node has only that, its plural."""
    named, several = (type_of(one, structure.types) for one in (word, plural(word)))
    is_plural = not len(instances.inside(structure, node, named)) and len(instances.inside(structure, node, several))
    return several if is_plural else named


def types_of(graph: ResourceGraph) -> dict[str, int]:
    """The types that a machine declares, and the slots of each on the node with the most; 0 for one that is declared with
    none.
    """
    structure, found = graph.structure, dict[str, int]()
    for node in instances.nodes(structure):
        for word in _declared(structure, node):
            found.setdefault(word, 0)
        slots: dict[str, int] = {}
        for v in instances.everything(structure, node):
            word = instances.word_of(structure.types[structure.type.item(v)], structure.types)
            units = structure.size.item(v) if instances.has_slots(structure, v) else 0
            slots[word] = slots.get(word, 0) + units // int(instances.scale(structure, np.array([v], np.int32))[0])
        for word, number in slots.items():
            found[word] = max(found.get(word, 0), number)
    return found


def request_of(graph: ResourceGraph, parameters: Mapping[str, Any]) -> Request:
    """The request of a test by its parameters, as far as they name types that the machine declares; the others ask for nothing.

    A test needs one cpu unless it says otherwise, and as many nodes as its counts need unless `nodes` says how many.  On several
    nodes it has each for itself.

    Errors: InputError for a parameter that names a type and is no whole number, and for a type of which no node has any.

    >>> import fluxres
    >>> machine = fluxres.load("canary:gpus=2 cpus=4")
    >>> [item.type for item in request_of(machine, {"gpus": 1, "fpgas": 3, "np": 9}).chooser.requests[0].items]
    ['gpus', 'cpus']
    """
    from fluxres.formats.peers.requests import canary_of

    known = types_of(graph)
    counts = language.infer({word: value for word, value in parameters.items() if word != "nodes"}, known)
    nodes = parameters.get("nodes")
    if nodes is not None and (isinstance(nodes, bool) or not isinstance(nodes, int)):
        raise InputError(f"expected a whole number, got {shown(nodes)}", where="parameter nodes")
    return canary_of(language.requests(counts, known, nodes=nodes), types=graph.structure.types).request


@dataclass(frozen=True, slots=True)
class ByTotals(Checkout):
    """The same without the items: whether there is a node for each request by the totals of its free slots."""

    def choose(self, offer: Offer) -> Choice | None:
        return None if self._nodes(offer) is None else Choice((), len(self.requests))


def is_feasible(graph: ResourceGraph, request: Request) -> bool:
    """Whether there is a node for each part of a request by the totals of what is free now: canary's own, weaker question.

    A request may be feasible and still be refused, because the slots of one item come from one instance.

    >>> import fluxres
    >>> machine = fluxres.load("canary:gpus=2 slots_per_gpu=2")
    >>> request = fluxres.Request.parse('{"items": [{"type": "gpus", "slots": 3}]}', format="canary")
    >>> is_feasible(machine, request), machine.why_not(request) is None
    (True, False)
    """
    rule = request.chooser
    if not isinstance(rule, Checkout):
        raise UsageError("this is no request of canary", hint="Request.parse(text, format='canary') reads one")
    try:
        graph.match(replace(request, chooser=ByTotals(rule.requests)))
    except (InsufficientResources, InfeasibleRequest):
        return False
    return True


def free_slots(graph: ResourceGraph, at: float | None = None) -> dict[str, dict[str, dict[str, Slots]]]:
    """The slots that are free now, or at a time, by node, type and id: canary's own view of its pool.

    >>> import fluxres
    >>> machine = fluxres.load("canary:gpus=2 cpus=1 slots_per_gpu=2")
    >>> _ = machine.allocate(fluxres.Request.parse("gpus=1", format="canary"), job="j")
    >>> free_slots(machine)
    {'node0': {'gpus': {'0': 1, '1': 2}, 'cpus': {'0': 0}}}
    """
    structure = graph.structure
    start, end = graph.window(at, None)
    free = graph.planner.free_slice(0, structure.n, start, min(start + 1, end))
    found: dict[str, dict[str, dict[str, Slots]]] = {}
    for node in instances.nodes(structure):
        types: dict[str, dict[str, Slots]] = {word: {} for word in _declared(structure, node)}
        vertices = instances.everything(structure, node)
        for type_name in dict.fromkeys(structure.types[structure.type.item(v)] for v in vertices):
            some = instances.inside(structure, node, type_name)
            left = [_in_slots(structure, v, free.item(v)) for v in some.tolist()]
            types[instances.word_of(type_name, structure.types)] = dict(zip(instances.labels(structure, some), left, strict=True))
        found[instances.label(structure, node)] = types
    return found


def _declared(structure: Structure, node: int) -> list[str]:
    """The types that a node declares without having any."""
    kept = dict(structure.kind_of(node).properties).get(NESTED + EMPTY)
    found = json.loads(kept) if isinstance(kept, str) else []
    return [word for word in found if isinstance(word, str)]


def _in_slots(structure: Structure, v: int, units: int) -> Slots:
    if not instances.has_slots(structure, v):
        return 0
    scale = int(instances.scale(structure, np.array([v], np.int32))[0])
    return units // scale if units % scale == 0 else units / scale


def checkin(graph: ResourceGraph, resources: Mapping[str, Sequence[Mapping[str, Any]]], job: str | None = None) -> None:
    """Return slots that were checked out: all of them or, if anything is wrong, none.

    Args:
        resources: by type, a node, an id and a number of slots each, as canary lists an allocation.
        job: whose they are; by default any job's.

    Errors: InputError for an unknown node, type or id and for invalid slots; NotHeld for more than is checked out.
    """
    back: dict[int, int] = {}
    for type_name, listed in resources.items():
        for each in listed:
            v, units = _returned(graph.structure, type_name, each)
            back[v] = back.get(v, 0) + units
    shares: dict[str, list[tuple[int, int]]] = {}
    for v, units in _with_whole_nodes(graph, back).items():
        left = units
        for one, amount in _holders(graph, v):
            if left and job in (None, one):
                shares.setdefault(one, []).append((v, min(left, amount)))
                left -= min(left, amount)
        if left:
            message = f"{units} units of {graph.structure.where(v)} are returned, but {units - left} are checked out"
            raise NotHeld(message, where=graph.structure.where(v), hint="they may have been returned before")
    for one, freed in shares.items():
        graph.free(one, freed)


def _with_whole_nodes(graph: ResourceGraph, back: dict[int, int]) -> dict[int, int]:
    """What is returned, with the node in place of its instances where a job has the node exclusively.

    Errors: NotHeld for some of the instances of such a node.
    """
    structure, now = graph.structure, graph.now()
    found: dict[int, int] = {}
    for v, units in back.items():
        node = graph.planner.covered_by(v, now, now + 1)
        if node < 0:
            found[v] = units
        elif node not in found:
            for u in instances.everything(structure, node):
                if structure.state_name(u) == "up" and back.get(u, 0) != structure.size.item(u):
                    message = (
                        f"{structure.where(node)} is checked out exclusively, and {structure.where(u)} is not returned with it"
                    )
                    raise NotHeld(message, where=structure.where(u), hint="return all of the node")
            found[node] = structure.size.item(node)
    return found


def _holders(graph: ResourceGraph, v: int) -> list[tuple[str, int]]:
    now = graph.now()
    return [(job, amount) for job, start, end, amount in graph.records.spans(v, now, now + 1) if start <= now < end]


def _returned(structure: Structure, type_name: str, each: object) -> tuple[int, int]:
    """The pool and the units of one entry. Errors: InputError."""
    if not isinstance(each, Mapping):
        raise InputError(f"expected node, id and slots, got {shown(each)}", where=type_name)
    node, name, slots = each.get("node"), each.get("id"), each.get("slots", 1)
    where = f"{node}/{type_name}/{name}"[:200]
    v = _instance(structure, node, type_name, name)
    if v is None:
        raise InputError(f"no {type_name} of id {shown(name)} on a node {shown(node)}", where=where)
    if isinstance(slots, bool) or not isinstance(slots, int | float) or not 0 < slots < float("inf"):
        raise InputError(f"expected slots above 0, got {shown(slots)}", where=where)
    scale = int(instances.scale(structure, np.array([v], np.int32))[0])
    units = _parts(slots) * scale
    if units % FRACTIONS:
        raise InputError(f"expected whole slots, got {shown(slots)}", where=where)
    return v, units // FRACTIONS


def _instance(structure: Structure, node: object, type_name: str, name: object) -> int | None:
    for v in instances.nodes(structure):
        if instances.label(structure, v) == node and isinstance(name, str):
            some: Int32 = instances.inside(structure, v, served_from(structure, v, type_name))
            named = dict(zip(instances.labels(structure, some), some.tolist(), strict=True))
            return named.get(name)
    return None
