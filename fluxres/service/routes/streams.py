"""Events of a graph, pushed as they are written to its journal (server-sent events)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Annotated, Final

from litestar import get
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter
from litestar.response import Stream

from fluxres import limits
from fluxres.errors import Unavailable, UsageError
from fluxres.service.replies import Asked, caller_of, site_of
from fluxres.service.routes.questions import READ, OfGraph
from fluxres.service.served import Served

MEDIA_TYPE: Final = "text/event-stream"
_ID: Final = "^[0-9]{1,15}(-[0-9a-f]{16})?$"
STREAM: Final = {200: ResponseSpec(str, media_type=MEDIA_TYPE, description="A stream of events.", generate_examples=False)}
"""The answers of a route that pushes events."""


@get(
    "/events",
    opt=READ,
    operation_id="events",
    responses=STREAM,
)
async def events(
    request: Asked,
    graph: OfGraph,
    after: Annotated[
        str | None,
        QueryParameter(pattern=_ID, description="The id of the last event that is known, or its number; else the latest."),
    ] = None,
    last_event_id: Annotated[
        str | None, HeaderParameter(name="Last-Event-ID", description="As `after`, when a stream is resumed.")
    ] = None,
) -> Stream:
    """The events of a graph, those after a number and then each as it happens, in the form of RFC 18.

    The `id` of an event is its number in the journal, `-`, and 16 digits that no other graph has, also none of this name.
    A stream that ended is resumed with the header `Last-Event-ID`; 409 (`stale`) if there is another graph by now.
    """
    caller_of(request).require_whole("a stream of events")
    given = after if last_event_id is None else last_event_id
    if given is not None and re.fullmatch(_ID, given) is None:
        raise UsageError(f"Last-Event-ID: expected the id of an event, or its number, got {given!r:.40}")
    number, _, uid = (given or "").partition("-")
    return await pushed(request, graph, lambda served: served.feed.follow(int(number) if number else None, uid))


async def pushed(request: Asked, graph: str, follow: Callable[[Served], AsyncGenerator[bytes]]) -> Stream:
    """A stream of what is followed on a graph.

    Errors: Unavailable if too many streams are open; UnknownGraph; those of the first item.
    """
    site, metrics = site_of(request), request.app.state.metrics
    if metrics.open_streams >= limits.SERVICE_STREAMS_MAX:
        raise Unavailable(f"{metrics.open_streams} streams are open already", retry_after_s=30)
    followed = follow(await site.work(lambda: site.current(graph)))
    first = await anext(followed)

    async def texts() -> AsyncIterator[bytes]:
        try:
            with metrics.streaming():
                yield first
                async for text in followed:
                    yield text
        finally:
            await followed.aclose()

    return Stream(texts(), media_type=MEDIA_TYPE, headers={"cache-control": "no-store", "x-accel-buffering": "no"})


ROUTES: Final = (events,)
