"""What two graphs are compared by: everything RFC 4 says a pool has, and who holds what."""

from __future__ import annotations

from typing import Any

from fluxres import Pool, ResourceGraph

DATA = ("type", "uuid", "basename", "name", "id", "size", "unit", "state", "uris")


def pool_facts(pool: Pool) -> dict[str, Any]:
    data = {name: getattr(pool, name) for name in DATA}
    return {**data, "properties": dict(pool.properties), "tags": dict(pool.tags)}


def facts(g: ResourceGraph) -> dict[str, dict[str, Any]]:
    """By place: what each pool is."""
    return {pool.where: pool_facts(pool) for pool in g.find("all")}


def paths(g: ResourceGraph) -> list[str]:
    """The paths of the containment tree."""
    return [pool.path for pool in g.walk()]


def records(g: ResourceGraph) -> list[tuple[str, str, int, float, float]]:
    """Who holds what, and when, what has ended included."""
    jobs = g.records.jobs()
    return sorted((span.job, span.pool, span.amount, span.start, span.end) for job in jobs for span in g.allocation(job).spans)
