"""A comparison of two graphs: all data of pools in RFC 4, and the records."""

from __future__ import annotations

from typing import Any

from fluxres import Pool, ResourceGraph

DATA = ("type", "uuid", "basename", "name", "id", "size", "unit", "state", "uris")


def pool_facts(pool: Pool) -> dict[str, Any]:
    data = {name: getattr(pool, name) for name in DATA}
    return {**data, "properties": dict(pool.properties), "tags": dict(pool.tags)}


def facts(g: ResourceGraph) -> dict[str, dict[str, Any]]:
    """The data of each pool, by place."""
    return {pool.where: pool_facts(pool) for pool in g.find("all")}


def paths(g: ResourceGraph) -> list[str]:
    """The paths of the containment tree."""
    return [pool.path for pool in g.walk()]


def records(g: ResourceGraph) -> list[tuple[str, str, int, float, float]]:
    """The records with their windows, including ended ones."""
    jobs = g.records.jobs()
    return sorted((span.job, span.pool, span.amount, span.start, span.end) for job in jobs for span in g.allocation(job).spans)
