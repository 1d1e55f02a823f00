"""Jobs of JQM: what a job asks of the managers of its queue, as a request whose rule names their pools.

There is nothing to search: a queue has its managers, and each has the units or items that are left.  The amounts depend on the
machine, because a manager says what a job takes that does not say itself, so they are worked out where the request is matched.
(Put into a jobspec, the same request takes the matcher 0.7 ms for a machine with fifty queues; a poll that starts fifty jobs has
20 ms.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

from fluxres import limits
from fluxres.documents.document import excerpt, shown
from fluxres.documents.suggestion import choose_from
from fluxres.errors import InputError, UsageError
from fluxres.formats.peers import grants, instances
from fluxres.formats.peers.grants import Granted
from fluxres.formats.peers.jqm import managers as jqm
from fluxres.formats.peers.jqm.managers import Discrete, Highlander, Rules
from fluxres.formats.peers.jqm.pollers import Manager, Poller, pollers
from fluxres.match.chooser import Alternative, Choice, Chooser, Offer
from fluxres.match.result import Picked
from fluxres.syntax import count
from fluxres.syntax.jobspec import Request
from fluxres.syntax.vertex import Vertex, settled

if TYPE_CHECKING:
    from fluxres.match.situation import Situation
    from fluxres.match.typology import Typology
    from fluxres.model import ResourceGraph

KEY: Final = "jqm"
"""The key of `attributes.user` with queue, definition, priority, position, since, highlander and parameters of a job."""
_WORD: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_.\-]*)(?:=(.*))?", re.DOTALL)
_NUMBER_MAX: Final = 1e18
_OWN: Final = ("queue", "definition", "priority", "position", "since", "highlander")


@dataclass(frozen=True, slots=True)
class Booking(Chooser):
    """The rule of a request: the managers of a queue book what the job needs of each.

    Args:
        queue: None for the only queue of the machine.
        parameters: of the definition and the job, merged, sorted by name.

    The first node whose managers all answer go gives the units; items are taken in the order of the list.
    """

    queue: str | None = None
    parameters: tuple[tuple[str, Any], ...] = ()

    def need(self, rules: Rules) -> int:
        """How much of a manager's resource the job takes. Errors: InputError for a need that is not a number."""
        return _need(rules, self.parameters)

    def pollers(self, situation_or_graph: Situation | ResourceGraph) -> Sequence[Poller]:
        """The pollers of its queue. Errors: UsageError for a queue that the machine does not have."""
        known = pollers(situation_or_graph.structure).by_queue
        name = self.queue if self.queue is not None or len(known) != 1 else next(iter(known))
        if name is None or name not in known:
            hint = choose_from(known, otherwise="the machine has no resource managers")
            raise UsageError(f"no queue {shown(name)}" if name is not None else "the request names no queue", hint=hint)
        return known[name]

    def asked(self, request: Request, typology: Typology) -> Request:
        return request

    def choose(self, offer: Offer) -> Choice | None:
        for poller in self.pollers(offer.situation):
            picked = self._booked(offer.situation, poller)
            if picked is not None and offer.is_supplied([(each.vertex, each.units) for each in picked]):
                return Choice(picked)
        return None

    def alternatives(self, request: Request, offer: Offer) -> list[Alternative]:
        return [Alternative(partial(self._lacks, offer.situation), request)]

    def _lacks(self, situation: Situation) -> list[str]:
        found = []
        for poller in self.pollers(situation):
            for manager in poller.managers:
                if isinstance(manager.rules, Highlander):
                    continue
                need = self.need(manager.rules)
                free = _ideal(manager.rules)
                if not situation.ideal:
                    free = manager.free(situation.structure, situation.planner, situation.start, situation.end)
                if (answer := jqm.answer(manager.rules, need, free)) != "go":
                    found.append(f"{manager.rules.key} is {answer.replace('-', ' ')}: {need} requested, {free} free")
                    break
        return ["; ".join(found) or "its managers have enough, but their suppliers have too little left"]

    def _booked(self, situation: Situation, poller: Poller) -> list[Picked] | None:
        structure, planner, picked = situation.structure, situation.planner, list[Picked]()
        for manager in poller.managers:
            rules = manager.rules
            if isinstance(rules, Highlander) or not (need := self.need(rules)):
                continue
            if situation.ideal:
                free, items = _ideal(rules), manager.pools.tolist()
            elif isinstance(rules, Discrete):
                items = manager.items(structure, planner, situation.start, situation.end)
                free = len(items)
            else:
                free, items = manager.free(structure, planner, situation.start, situation.end), []
            if need > free:
                return None
            if isinstance(rules, Discrete):
                picked += [Picked(0, v, 1) for v in items[:need]]
            else:
                picked.append(Picked(0, int(manager.pools[0]), need))
        return picked


@lru_cache(maxsize=1024)
def _need(rules: Rules, parameters: tuple[tuple[str, Any], ...]) -> int:
    """Worked out once for all jobs alike: a poll asks for each job, once for each manager that it looks at."""
    return jqm.consumption(rules, {}, dict(parameters))


def _ideal(rules: Rules) -> int:
    return len(rules.items) if isinstance(rules, Discrete) else rules.quantity if isinstance(rules, jqm.Quantity) else 0


def request(
    *,
    queue: str | None = None,
    definition: str | None = None,
    definition_parameters: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    priority: int | None = None,
    position: float | None = None,
    since_s: float | None = None,
    highlander: bool = False,
    duration_s: float | None = None,
) -> Request:
    """The request of a job.

    Args:
        queue: None for the only queue of the machine.
        definition: the name of its definition, of which only one highlander runs at a time.
        definition_parameters, parameters: of the definition and of the job, those of managers among them; those of the job win.
        priority: 1 to 10, higher first; None is below all.
        position: its place among jobs of one priority; by default the order of submission.
        since_s: when it was enqueued, if that was not now; its age counts from then, also while it is held.
        highlander: whether only one job of its definition may run at a time.

    Errors: InputError for an invalid priority, or a highlander without a definition.

    >>> import fluxres
    >>> machine = fluxres.load(b"managers: [{type: quantity, key: thread}, {type: discrete, key: ports, list: 'a,b'}]")
    >>> job = request(parameters={"com.enioka.jqm.rm.ports.consumption": 1})
    >>> [pool.name for pool in machine.allocate(job, job="j1").pools]
    ['thread', 'a']
    """
    if highlander and definition is None:
        raise InputError(
            "a highlander needs a definition", where="definition", hint="name the definition of which one job may run"
        )
    merged = {**(definition_parameters or {}), **(parameters or {})}
    facts = {
        "queue": queue,
        "definition": definition,
        "priority": jqm.priority(priority) or None,
        "position": position,
        "since": since_s,
        "highlander": highlander or None,
        "parameters": merged or None,
    }
    kept = {name: value for name, value in facts.items() if value is not None}
    node = Vertex("node", count.exactly(1), exclusive=False)
    rule = Booking(queue, tuple(sorted((name, _hashable(value, name)) for name, value in merged.items())))
    return Request(settled([node]), attributes={"user": {KEY: kept}}, duration_s=duration_s, chooser=rule)


def rule_of(kept: Mapping[str, Any]) -> Booking:
    """The rule of a job, from what a jobspec keeps of it. Errors: InputError for what is none."""
    queue, parameters = kept.get("queue"), kept.get("parameters", {})
    if not isinstance(queue, str | None) or not isinstance(parameters, Mapping):
        raise InputError(f"expected a queue and parameters, got {shown(kept)}", where=f"attributes.user.{KEY}")
    return Booking(queue, tuple(sorted((name, _hashable(value, name)) for name, value in parameters.items())))


def _hashable(value: object, name: str) -> object:
    if not isinstance(value, str | int | float | bool | None):
        raise InputError(f"expected text or a number, got {shown(value)}", where=name)
    return value


def parse(text: str) -> Request:
    """The request in words such as ``queue=q1 definition=report priority=5 ports=2``, or the same keys as JSON.

    Other words than ``queue``, ``definition``, ``priority``, ``position`` and ``highlander`` are parameters of the job: a name
    with a dot as it is, any other is the key of a manager, and its number is what the job takes.

    Errors: InputError naming the word.

    >>> parse("queue=q1 ports=2 highlander definition=report").chooser
    Booking(queue='q1', parameters=(('com.enioka.jqm.rm.ports.consumption', '2'),))
    """
    import orjson

    if text.lstrip().startswith("{"):
        try:
            values: dict[str, Any] = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise InputError(f"expected JSON: {error.msg}", where=f"request:{error.lineno}:{error.colno}") from None
        more = values.pop("parameters", {})
        if not isinstance(more, dict):
            raise InputError(f"expected an object, got {shown(more)}", where="parameters")
        given = {**values, **more}
    else:
        given = _words(text)
    own = {name: given.pop(name) for name in _OWN if name in given}
    parameters = {(name if "." in name else f"{jqm.PREFIX}{name.lower()}.consumption"): value for name, value in given.items()}
    for name in ("queue", "definition"):
        if not isinstance(own.get(name, ""), str) or len(own.get(name, "")) > limits.NAME_LENGTH_MAX:
            raise InputError(f"expected a name, got {shown(own[name])}", where=name)
    if not isinstance(own.get("highlander", False), bool):
        raise InputError(f"expected true or false, got {shown(own['highlander'])}", where="highlander")
    return request(
        queue=own.get("queue"),
        definition=own.get("definition"),
        parameters=parameters,
        priority=_number(own, "priority"),  # type: ignore[arg-type]  # checked by `request`, as any priority is
        position=_number(own, "position"),
        since_s=_number(own, "since"),
        highlander=own.get("highlander", False),
    )


def _words(text: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for word in text.split():
        named = _WORD.fullmatch(word)
        if named is None or (named[2] is None and named[1] != "highlander"):
            raise InputError(
                f"expected NAME=VALUE, got {excerpt(word)}", where="request", hint="such as queue=q1 ports=2 priority=5"
            )
        if named[1] in found:
            raise InputError(f"{named[1]} is given twice", where="request", hint="remove one")
        found[named[1]] = True if named[2] is None else _boolean(named[2]) if named[1] == "highlander" else named[2]
    return found


def _boolean(text: str) -> bool | str:
    return {"true": True, "false": False}.get(text.lower(), text)


def _number(given: Mapping[str, Any], name: str) -> int | float | None:
    value = given.get(name)
    if isinstance(value, str):
        value = _read_number(value, name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _NUMBER_MAX:
        raise InputError(f"expected a number, got {shown(value)}", where=name)
    return value


def _read_number(text: str, name: str) -> int | float:
    try:
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,30}", text) else float(text[: limits.VALUE_LENGTH_MAX])
    except ValueError:
        raise InputError(f"expected a number, got {excerpt(text)}", where=name) from None


def facts(request: Request) -> Mapping[str, Any]:
    """What a request says of its job that is no resource; empty for a request of another system."""
    user = request.attributes.get("user") if request.attributes else None
    found = user.get(KEY) if isinstance(user, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def environment(request: Request, granted: Granted) -> dict[str, str]:
    """The variables of a job with the names of its items, one for each list that gave it any.

    Errors: UsageError for a request of another system.

    >>> import fluxres
    >>> machine = fluxres.load(b"managers: [{type: discrete, key: ports, list: 'a,b', consumption: 2}]")
    >>> wanted = parse("priority=3")
    >>> environment(wanted, machine.allocate(wanted, job="j1"))
    {'JQM_RM_DISCRETE_PORTS_ITEMS': 'a,b'}
    """
    rule, structure = request.chooser, grants.structure_of(granted)
    if not isinstance(rule, Booking):
        raise UsageError("this is no request of JQM", hint="fluxres.formats.peers.jqm.jobs.request makes one")
    held = {v for _, v, _ in grants.everything(granted)}
    booked: dict[str, list[str]] = {}  # several queues may have a list of that key; the job has items of one of them
    for manager in (each for known in pollers(structure).by_queue.values() for poller in known for each in poller.managers):
        items = [instances.label(structure, v) for v in manager.pools.tolist() if v in held]
        if isinstance(manager.rules, Discrete) and items:
            booked[manager.rules.key] = [item for item in items if item]
    return jqm.environment(booked)


def slots_available(graph: ResourceGraph, key: str, queue: str | None = None) -> int:
    """How many more jobs of default size a manager has room for now; negative after its quantity was reduced while in use.

    Args:
        queue: None for a manager of the node, or of the only queue.

    Errors: UsageError for a manager that the machine does not have.
    """
    found = _manager(graph, key, queue)
    return jqm.room(found.rules, _free(graph, found)) if not isinstance(found.rules, Highlander) else limits.SIZE_MAX


def answer(graph: ResourceGraph, request: Request, key: str) -> jqm.Answer:
    """What a manager answers a job now: go, not enough, or empty.  A highlander is asked by the queue policies, which know jobs.

    Errors: UsageError for a request of another system, and for a manager that the machine does not have.

    >>> import fluxres
    >>> machine = fluxres.load(b"managers: [{type: quantity, key: thread, quantity: 3}]")
    >>> answer(machine, parse("thread=5"), "thread")
    'not-enough'
    """
    rule = request.chooser
    if not isinstance(rule, Booking):
        raise UsageError("this is no request of JQM", hint="fluxres.formats.peers.jqm.jobs.request makes one")
    found = _manager(graph, key, rule.queue)
    return "go" if isinstance(found.rules, Highlander) else jqm.answer(found.rules, rule.need(found.rules), _free(graph, found))


def _manager(graph: ResourceGraph, key: str, queue: str | None) -> Manager:
    known = pollers(graph.structure).by_queue
    some = known.get(queue, ()) if queue is not None else [poller for each in known.values() for poller in each]
    found = next((manager for poller in some if (manager := poller.manager(key.lower())) is not None), None)
    if found is None:
        raise UsageError(
            f"no manager {key!r:.80}" + (f" in queue {queue!r:.80}" if queue else ""), hint="check its key and its queue"
        )
    return found


def _free(graph: ResourceGraph, manager: Manager) -> int:
    now = graph.now()
    return manager.free(graph.structure, graph.planner, now, now + 1)
