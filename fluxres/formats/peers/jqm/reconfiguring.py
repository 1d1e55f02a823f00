"""Changing a resource manager while jobs run, as JQM does when an administrator edits it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fluxres.clock import FOREVER
from fluxres.documents.source import Source
from fluxres.errors import UsageError
from fluxres.formats.peers import instances
from fluxres.formats.peers.jqm import managers as jqm
from fluxres.formats.peers.jqm import resource_managers
from fluxres.formats.peers.jqm.managers import Quantity
from fluxres.formats.peers.jqm.pollers import Manager, pollers
from fluxres.formats.peers.jqm.resource_managers import Parsed, Stated
from fluxres.model import ResourceGraph


def reconfigure(
    graph: ResourceGraph,
    key: str,
    *,
    queue: str | None = None,
    quantity: int | None = None,
    items: Sequence[str] | None = None,
    consumption: int | None = None,
) -> None:
    """Change a manager while jobs run; what they hold stays theirs.

    What is free of a quantity changes by the difference, and may become negative.  Items that are gone from the list are not
    given out again, and those that are new are free.

    Args:
        queue: whose manager it is; None for one of the node.

    Errors: UsageError for a manager that the machine does not have; InputError for an invalid value.

    >>> import fluxres
    >>> from fluxres.formats.peers.jqm.jobs import request, slots_available
    >>> machine = fluxres.load(b"managers: [{type: quantity, key: thread, quantity: 3}]")
    >>> for job in ("a", "b"): _ = machine.allocate(request(), job=job)
    >>> reconfigure(machine, "thread", quantity=1)
    >>> slots_available(machine, "thread")
    -1
    """
    source = Source(resource_managers.write(graph.structure).data, "resource managers")
    changes: dict[str, Any] = {"quantity": quantity, "list": items, "consumption": consumption}
    given = {name: value for name, value in changes.items() if value is not None}
    nodes = list(_changed(graph, resource_managers.parse(source.document), key.lower(), queue, given))
    graph.apply(ResourceGraph(resource_managers.machine(nodes, source, None)), drain=True)


def _changed(
    graph: ResourceGraph, nodes: Sequence[Parsed], key: str, queue: str | None, given: dict[str, Any]
) -> Iterator[Parsed]:
    found = False

    def changed(stated: Stated, managers: Sequence[Manager]) -> Stated:
        nonlocal found
        own = next((each for each in managers if each.rules.key == stated.rules.key), None)
        if stated.rules.key == key:
            found = True
            known = {name: value for name, value in resource_managers.plain(stated.rules).items() if name not in ("type", "key")}
            stated = stated._replace(rules=jqm.configured(jqm.type_of(stated.rules), key, {**known, **given}))
        if own is not None and isinstance(stated.rules, Quantity) and len(own.pools):
            used = _used(graph, own)
            stated = stated._replace(size=used if used > stated.rules.quantity else None)
        return stated

    by_node = {poller.node: poller for some in pollers(graph.structure).by_queue.values() for poller in some}
    for node, v in zip(nodes, instances.nodes(graph.structure), strict=True):
        of_node = by_node[v].managers if v in by_node else ()
        managers = [changed(each, of_node) if queue is None else each for each in node.managers]
        queues = []
        for each in node.queues:
            of_queue = next((one.managers for one in pollers(graph.structure).by_queue.get(each.name, ()) if one.node == v), ())
            is_meant = queue in (None, each.name)
            queues.append(
                each._replace(
                    managers=[
                        changed(stated, of_queue) if is_meant and (queue is not None or stated.is_shared) else stated
                        for stated in each.managers
                    ]
                )
            )
        yield node._replace(managers=managers, queues=queues)
    if not found:
        raise UsageError(
            f"no manager {key!r:.80}" + (f" in queue {queue!r:.80}" if queue else ""), hint="check its key and its queue"
        )


def _used(graph: ResourceGraph, manager: Manager) -> int:
    """The most units in use from now on."""
    return graph.planner.used(int(manager.pools[0]), graph.now(), FOREVER)
