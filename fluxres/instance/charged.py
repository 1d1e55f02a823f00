"""To whom jobs are charged; what that means is in `accounting` and `ledger`."""

from __future__ import annotations

from typing import Final, NamedTuple


class Charged(NamedTuple):
    """To whom a job is charged; None for what it does not name."""

    user: str | None = None
    account: str | None = None
    qos: str | None = None
    partition: str | None = None


NOBODY: Final = Charged()
