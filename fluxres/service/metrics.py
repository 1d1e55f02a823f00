"""Numbers for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph
    from fluxres.service.access import Caller

_BUCKETS_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)


class _Leads(Protocol):
    @property
    def is_leading(self) -> bool: ...

    @property
    def epoch(self) -> int: ...


class _Served(Protocol):
    name: str
    graph: ResourceGraph


class Monitored(Protocol):
    """What answers requests: a site, or a relay to one."""

    waiting: int

    @property
    def leadership(self) -> _Leads: ...

    @property
    def open_graphs(self) -> Sequence[_Served]: ...


class ServiceMetrics:
    """The numbers of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "fluxres_requests", "Requests answered.", ["method", "operation", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "fluxres_request_seconds", "Time of answers.", ["operation"], buckets=_BUCKETS_S, registry=self.registry
        )
        self.waiting = Gauge("fluxres_waiting_requests", "Requests that work or wait for a thread.", registry=self.registry)
        self.streams = Gauge("fluxres_event_streams", "Event streams that are open.", registry=self.registry)
        self.leads = Gauge("fluxres_leads", "1 if this server leads its store, 0 if it stands by.", registry=self.registry)
        self.epoch = Gauge("fluxres_epoch", "Number of take-overs of the store so far.", registry=self.registry)
        self.pools = Gauge("fluxres_pools", "Pools of a graph.", ["graph"], registry=self.registry)
        self.jobs = Gauge("fluxres_jobs", "Jobs with records in a graph.", ["graph"], registry=self.registry)
        self.revision = Gauge("fluxres_revision", "Changes of a graph since it was opened.", ["graph"], registry=self.registry)
        self.open_streams = 0
        #: What counts answers of a kind: to find it by its labels takes longer than to count.
        self._kinds: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}

    def answered(self, method: str, operation: str, status: int, seconds: float) -> None:
        """Count an answer."""
        kind = method, operation, status
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = self.requests.labels(method, operation, str(status)), self.seconds.labels(operation)
        known[0].inc()
        known[1].observe(seconds)

    @contextmanager
    def streaming(self) -> Iterator[None]:
        """Count an event stream as long as it is open."""
        self.open_streams += 1
        try:
            yield
        finally:
            self.open_streams -= 1

    def exposition(self, site: Monitored, caller: Caller) -> bytes:
        """The numbers as Prometheus reads them; of graphs, those that the caller may see."""
        self.waiting.set(site.waiting)
        self.streams.set(self.open_streams)
        self.leads.set(site.leadership.is_leading)
        self.epoch.set(site.leadership.epoch)
        for gauge in (self.pools, self.jobs, self.revision):
            gauge.clear()
        for served in site.open_graphs:
            graph = served.graph
            if caller.paths is not None or (caller.graphs is not None and served.name not in caller.graphs):
                continue
            self.pools.labels(served.name).set(len(graph))
            self.jobs.labels(served.name).set(len(graph.records.jobs()))
            self.revision.labels(served.name).set(graph.revision)
        return generate_latest(self.registry)
