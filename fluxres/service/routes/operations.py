"""How the service does: for load balancers, for Prometheus, for people."""

from __future__ import annotations

from typing import Final

from litestar import Response, get
from litestar.openapi.datastructures import ResponseSpec

from fluxres import __version__
from fluxres.errors import Unavailable
from fluxres.service import answers
from fluxres.service.replies import Asked, caller_of, json, site_of
from fluxres.service.routes.questions import READ

TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"


@get("/health", opt={"open": True}, operation_id="health")
async def health() -> Response[answers.Health]:
    """Whether the process answers."""
    return json(answers.Health, {"status": "ok", "version": __version__})


@get("/ready", opt={"open": True}, operation_id="ready")
async def ready(request: Asked) -> Response[answers.Ready]:
    """Whether requests are welcome: the store can be read, this server leads it, and does not stop.

    A standby server is not ready, and says which one leads.
    """
    if request.app.state.gate.is_draining:
        raise Unavailable("the service is stopping", retry_after_s=10)
    site = site_of(request)
    site.leadership.require()
    graphs = await site.count_graphs()
    return json(answers.Ready, {"status": "ok", "store": "ok", "graphs": graphs, "epoch": site.leadership.epoch})


@get(
    "/metrics",
    opt=READ,
    operation_id="metrics",
    responses={
        200: ResponseSpec(str, media_type="text/plain", description="In the format of Prometheus.", generate_examples=False)
    },
)
async def metrics(request: Asked) -> Response[bytes]:
    """Requests, changes, streams and graphs, for Prometheus."""
    body: bytes = request.app.state.metrics.exposition(site_of(request), caller_of(request))
    return Response(body, media_type=TEXT)


ROUTES: Final = (health, ready, metrics)
