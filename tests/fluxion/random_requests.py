"""Random requests for a machine, most of them satisfiable, as plain values of a jobspec."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.fluxion.random_machine import Machine, Pool

Values = dict[str, Any]


def request(random: Random, machine: Machine, *, flexible: bool = False) -> Values:
    """A jobspec."""
    system: Values = {"duration": random.choice([0, 1, 10, 10, 50, 99.5, 100, 3600])}
    if random.random() < 0.25:
        system["constraints"] = _constraint(random, machine, 0)
    if random.random() < 0.1:
        system["queue"] = "batch"
    return {
        "version": random.choice([1, 9999]),
        "resources": _resources(random, machine, flexible=flexible),
        "tasks": [{"command": ["app"], "slot": "s", "count": {"per_slot": 1}}],
        "attributes": {"system": system},
    }


def _resources(random: Random, machine: Machine, *, flexible: bool) -> list[Values]:
    places = [pool for pool in machine.pools() if pool.children]
    place = random.choice(places)
    if flexible and random.random() < 0.7:
        slots = [_slot(random, place, leaves=True) for _ in range(random.randint(1, 3))]
        kind = random.choice(["slot", "slot", "xor_slot"])
        return [slot | {"type": kind} for slot in slots]
    asked = _slot(random, place)
    roll = random.random()
    if roll < 0.1:
        asked = _exclusive(random, place)
    # From the slot up, level by level; anything above may be left out.
    level: Pool | None = place
    while level is not None and random.random() < 0.5:
        asked = _level(random, level, [asked])
        level = level.parent
    if roll > 0.97:
        return [asked, asked]
    if roll > 0.94:
        return [_level(random, place, [])]
    if roll > 0.92:
        return [{"type": random.choice(["rack", "socket", "ssd", "fork"]), "count": 1, "with": [asked]}]
    return [asked]


def _level(random: Random, pool: Pool, below: list[Values]) -> Values:
    values: Values = {"type": pool.type, "count": _count(random, 2)}
    if below:
        values["with"] = below
    if random.random() < 0.1:
        values["exclusive"] = random.random() < 0.6
    if random.random() < 0.1:
        values["label"] = random.choice(["a", "b"])
    return values


def _slot(random: Random, place: Pool, *, leaves: bool = False) -> Values:
    types = list(dict.fromkeys(child.type for child in place.children))
    chosen = random.sample(types, random.randint(1, len(types)))
    below = [_below(random, place, type_, leaves=leaves) for type_ in chosen]
    if random.random() < 0.03:
        below.append(below[0])
    return {"type": "slot", "count": _count(random, 3), "label": "s", "with": below}


def _below(random: Random, place: Pool, type_: str, *, leaves: bool) -> Values:
    pool = next(child for child in place.children if child.type == type_)
    values: Values = {"type": type_, "count": _count(random, 3 if pool.size == 1 else 2 * pool.size)}
    if pool.children and not leaves and random.random() < 0.6:
        types = list(dict.fromkeys(child.type for child in pool.children))
        values["with"] = [_below(random, pool, one, leaves=leaves) for one in random.sample(types, random.randint(1, len(types)))]
    return values


def _exclusive(random: Random, place: Pool) -> Values:
    values = _level(random, place, [_slot(random, place)] if random.random() < 0.5 else [])
    return values | {"exclusive": True}


def _count(random: Random, most: int) -> Any:
    least = random.choice([1, 1, 1, random.randint(1, most)])
    roll = random.random()
    if roll < 0.75:
        return least
    if roll < 0.8:
        return {"min": least}
    operator = random.choice("+*^")
    least = max(least, 2) if operator == "^" else least
    return {"min": least, "max": least + random.randint(0, 5), "operator": operator, "operand": random.randint(2, 3)}


def _constraint(random: Random, machine: Machine, depth: int) -> Values:
    nodes = [pool for pool in machine.pools() if pool.type == "node"]
    roll = random.random()
    if roll < 0.35 or not nodes:
        keys = random.sample(["ssd", "^ssd", "big@core", "^big@core", "big", "^arm-v9@core", "arm-v9@core"], random.randint(1, 2))
        return {"properties": keys}
    if roll < 0.55:
        return {"hostlist": sorted({pool.name for pool in random.sample(nodes, random.randint(1, len(nodes)))})}
    if roll < 0.75 or depth > 1:
        return {"ranks": [str(max(pool.rank, 0)) for pool in random.sample(nodes, random.randint(1, len(nodes)))]}
    operator = random.choice(["and", "or", "not"])
    return {operator: [_constraint(random, machine, depth + 1) for _ in range(random.randint(1, 2))]}
