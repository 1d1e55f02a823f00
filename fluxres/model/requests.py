"""What can be asked of a graph by request: whether, where, when, and why not.  Nothing here gives anything to anybody.

Apart from the questions about pools because they begin with the matcher, whose import commands on pools do not pay for.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fluxres.clock import Length, Time, seconds
from fluxres.model.inspection import Inspection
from fluxres.model.locking import locked

if TYPE_CHECKING:
    from fluxres.match import Match, Policy, Refusal
    from fluxres.model.several import Shortage
    from fluxres.model.targets import Targets
    from fluxres.syntax.jobspec import Wanted


class Requests(Inspection):
    """A graph to be asked by request.

    Args: see :class:`~fluxres.model.resource_graph.ResourceGraph`.
    """

    # -- one request -------------------------------------------------------------------------------------------------

    def match(
        self, wanted: Wanted, at: Time | None = None, duration_s: Length | None = None, policy: str | Policy = "first"
    ) -> Match:
        """Pools for a request, recorded nowhere (specs/matching.md); `commit_match` gives them to a job.

        Args:
            wanted: a shape, short options, a jobspec or a Request.
            at: start in seconds; now by default.
            duration_s: length; by default as long as the request says, else without end.
            policy: which pools to prefer: first, low, high, lonode, hinode, their node-exclusive forms (lonodex …), locality,
                variation, pack, spread, or a Policy of one's own.

        A question changes nothing: what a stage locks stays locked until a change comes after its time, or `expire()`.

        Errors: InsufficientResources with the earliest time, InfeasibleRequest with the reasons, InputError.
        """
        with self.lock:
            from fluxres.model import matching  # the first request pays for the matcher's import, and commands on pools do not

            return matching.match(self._face, wanted, at, duration_s, policy)

    @locked
    def satisfiable(self, wanted: Wanted) -> bool:
        """Whether a request could ever be matched: with everything up and nothing held.

        Errors: InfeasibleRequest for a type that the machine does not have.
        """
        from fluxres.model import matching

        return matching.satisfiable(self._face, wanted)

    @locked
    def why_not(
        self, wanted: Wanted, at: Time | None = None, duration_s: Length | None = None, policy: str | Policy = "first"
    ) -> Refusal | None:
        """Why there are no pools for a request; None when there are.  `.sentences()` says it in words."""
        from fluxres.model import matching

        return matching.why_not(self._face, wanted, at, duration_s, policy)

    @locked
    def earliest(
        self, wanted: Wanted, after: Time | None = None, duration_s: Length | None = None, policy: str | Policy = "first"
    ) -> float | None:
        """The first start, in seconds, at which there are pools for a request; None when there never are."""
        from fluxres.model import matching

        return matching.earliest(self._face, wanted, after, duration_s, policy)

    # -- several at once ---------------------------------------------------------------------------------------------

    @locked
    def match_all(
        self,
        wanted: Iterable[Wanted],
        at: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
    ) -> list[Match]:
        """Pools for several requests at one start, of which no two take the same; `commit_all` gives them to jobs.

        Args:
            wanted: requests; each is for as long as it says, unless duration_s does.
            at, policy: as for match, of all of them.

        Requests are matched in their order, and those that then find nothing before the others. Where that is not enough,
        one request with several resources lets the matcher weigh its parts against each other.

        Errors: as match, with the number of the request that has none; nothing is said of the others then.
        """
        from fluxres.model import several

        parts = several.requests_of(wanted, duration_s)
        found = several.match(self._face, parts, self.window(at, None)[0], policy)
        return [match for match in found if match is not None]

    @locked
    def why_not_all(
        self,
        wanted: Iterable[Wanted] | Iterable[tuple[Targets | Wanted, str]],
        at: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
    ) -> Shortage | None:
        """Which of several requests has no pools beside the others, and why; None when all have.

        Args:
            wanted: as for match_all, or as for allocate_all.

        `.refusal` is as of `why_not`, with the earliest start of all together.
        """
        from fluxres.model import several

        start = self.window(at, None)[0]
        parts = several.parts_or_requests(self._face, list(wanted), duration_s, start)
        return several.why_not(self._face, parts, start, policy)

    @locked
    def earliest_all(
        self,
        wanted: Iterable[Wanted],
        after: Time | None = None,
        duration_s: Length | None = None,
        policy: str | Policy = "first",
    ) -> float | None:
        """The first start, in seconds, at which there are pools for several requests together; None when there never are."""
        from fluxres.model import several

        start = several.start_of_all(
            self._face, several.requests_of(wanted, duration_s), self.window(after, None, "after")[0], policy
        )
        return None if start is None else seconds(start)
