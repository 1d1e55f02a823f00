"""How many requests a second each token may send."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from fluxres.clock import stopwatch
from fluxres.errors import RateExceeded
from fluxres.service.access import Caller


class Rates:
    """A bucket for each token with a rate: it holds the requests of one second, and fills as fast as the rate says.

    Args:
        now: returns seconds that only grow.
    """

    def __init__(self, now: Callable[[], float] = stopwatch) -> None:
        self._now = now
        self._left: dict[str, tuple[float, float]] = {}

    def admit(self, caller: Caller) -> None:
        """Count a request.

        Errors: RateExceeded, with the seconds until the next one is welcome; the request is not counted then.
        """
        rate = caller.rate
        if rate is None:
            return
        most, now = max(rate, 1.0), self._now()
        left, since = self._left.get(caller.name, (most, now))
        left = min(most, left + (now - since) * rate)
        if left < 1:
            self._left[caller.name] = left, now
            message = f"token '{caller.name}' may send {rate:g} request{'s' * (rate != 1)} a second"
            raise RateExceeded(message, hint="send fewer, or several changes at once", retry_after_s=ceil((1 - left) / rate))
        self._left[caller.name] = left - 1, now
