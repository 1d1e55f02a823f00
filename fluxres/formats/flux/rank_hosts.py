"""The nodes named by a list of hosts: by a template and numbers if all follow one rule, else one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fluxres.documents.excerpt import excerpt
from fluxres.errors import InputError
from fluxres.syntax.hostlist import Expression

_DIGITS: Final = "0123456789"
_DIGITS_MAX: Final = 18
HOST: Final = "host"
"""Tag of a node that is not named after its host because the host has other nodes too."""


@dataclass(frozen=True)
class Hosts:
    """Nodes in the order of their hosts.

    Args:
        ids: the number at the end of each name, -1 without one.
        template: of all names; None if the names are in `names`, or are ``node`` and the id.
        names: by position, if no template gives them.
        shared: host by position, of nodes that could not be named after it.
    """

    ids: NDArray[np.int64]
    template: str | None = None
    names: dict[int, str] = field(default_factory=dict)
    shared: dict[int, str] = field(default_factory=dict)


def require_path_steps(expressions: Sequence[Expression]) -> None:
    """Refuse hosts that could not be a step of a path.

    Errors: InputError with the name.
    """
    for expression in expressions:
        if "/" in expression.prefix or "/" in expression.suffix:
            host = excerpt(expression.prefix + expression.suffix)
            raise InputError(f"the host {host} has a '/'", hint="a name is one step of a path")


def hosts_of(expressions: Sequence[Expression], ranks: NDArray[np.int64]) -> Hosts:
    """The nodes of these hosts, of which there are as many as ranks.

    Two brokers may run on one host, but two siblings need two names: the second is ``HOST@RANK``, and its host a tag.

    Cost: O(expressions) for hosts that one template names, O(hosts) otherwise.

    >>> from fluxres.syntax import hostlist
    >>> hosts_of(hostlist.expressions("n[08-10]"), np.arange(3)).template
    'n${id:02}'
    """
    regular = _regular(expressions)
    if regular is not None and len(np.unique(regular[1])) == len(regular[1]):
        return Hosts(regular[1], None if regular[0] == "node${id}" else regular[0])
    names: dict[int, str] = {}
    shared: dict[int, str] = {}
    ids = np.full(len(ranks), -1, np.int64)
    taken: set[str] = set()
    for i, host in enumerate(host for expression in expressions for host in expression):
        digits = host[len(host.rstrip(_DIGITS)) :]
        if 0 < len(digits) <= _DIGITS_MAX:
            ids[i] = int(digits)
        name = host
        while name in taken:
            name = f"{name}@{ranks[i]}"
            shared[i] = host
        taken.add(name)
        names[i] = name
    return Hosts(ids, None, names, shared)


def _regular(expressions: Sequence[Expression]) -> tuple[str, NDArray[np.int64]] | None:
    """Template and numbers of hosts that differ in one number at the end."""
    stems: set[str] = set()
    runs: list[tuple[int, int, int]] = []
    for expression in expressions:
        stem = expression.prefix
        if not expression.runs:
            stem = stem.rstrip(_DIGITS)
            digits = expression.prefix[len(stem) :]
            if not 0 < len(digits) <= _DIGITS_MAX:
                return None
            runs.append((int(digits), int(digits), len(digits)))
        elif expression.suffix or stem[-1:] in _DIGITS:
            return None
        runs.extend(expression.runs)
        stems.add(stem)
    widths = {width for _, _, width in runs}
    padded = any(width > len(str(first)) for first, _, width in runs)
    if len(stems) != 1 or (padded and len(widths) > 1) or any(last >= 10**_DIGITS_MAX for _, last, _ in runs):
        return None
    stem = stems.pop().replace("$", "$$")
    template = f"{stem}${{id:0{widths.pop()}}}" if padded else f"{stem}${{id}}"
    return template, np.concatenate([np.arange(first, last + 1, dtype=np.int64) for first, last, _ in runs])
