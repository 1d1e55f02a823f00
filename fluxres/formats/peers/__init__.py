"""The systems whose users bring their files and requests: HyperQueue, canary, CTest, JQM, and the pools of Flux.

Each has a folder with its language, the readers and writers of its files, the rule by which it picks units, and the variables of
its jobs.  Users of these systems expect the same index, the same instance, the same refusal, and their rules differ from each
other and from the matcher's policies (best fit and worst fit, stacks and backtracking, three kinds of refusal).  A rule works on
a graph: it is the `Chooser` of a request in the system's language (:mod:`fluxres.match.chooser`), and what it picks is an
ordinary allocation.  The rule of HyperQueue is :class:`fluxres.match.workers.Amounts`.

`FORMATS` describes the files, `requests` reads requests for a graph, and the `inventory` modules turn hosts and their stocks
into a machine and back.  What a peer system's pool forbids a request on a graph is in :mod:`fluxres.match.matcher`.
"""

from __future__ import annotations

import re
from typing import Final

from fluxres.formats.detection import keys
from fluxres.formats.format import Fact, Format

_WORKER = re.compile(
    rb"""(?:\s*+(?:\#[^\n]*+\n)?)*+                                     # empty lines and comments
    (?:(?:\$[ \t]+)?hq[ \t]+worker[ \t]+start\b
      |--(?:cpus|resources?|hostname|coupling)[= \t]
      |[A-Za-z0-9/]+[ \t]*=[ \t]*
       (?:(?:list|range|sum)[ \t]*\([^)\n]*+\) | [0-9][0-9_]*[ \t]*x[ \t]*[0-9] | \[[^\n={}]*\][ \t]*\r?(?:\n|\Z)))
    """,
    re.VERBOSE,
)
_INSTANCES = re.compile(r"(?:resource_pool\.)?(?:resources|local)\.[^.\[\]]+(?:\[\]\.id)?")
_MANAGERS = re.compile(r"(?:nodes\[\]\.)?(?:queues\[\]\.)?(?:managers|resourceManagers)\[\]\.(?:key|type|implementation)")
_OF_JQM = ("discreteRmList", "nbThread", "queues[].nbThread", "queues[].managers", "queues[].resourceManagers")
_RELEASED = frozenset({f"{place}{key}" for place in ("", "nodes[].") for key in _OF_JQM})


def _is_hyperqueue(head: bytes) -> bool:
    if head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"["):
        return _WORKER.match(head.removeprefix(b"\xef\xbb\xbf")) is not None
    found = {key.removeprefix("[].") for key in keys(head)}
    return "configuration.resources" in found or {"resources[].kind", "resources[].name"} <= found


def _is_ctest(head: bytes) -> bool:
    found = keys(head)
    return "local" in found and ("version" in found or any(key.startswith("local[].") for key in found))


def _is_canary(head: bytes) -> bool:
    found = keys(head)
    if "fluxres" in found or "version" in found:
        return False
    if "resource_pool" in found or "nodes[].resources" in found:
        return True
    return any(_INSTANCES.fullmatch(key) for key in found)


def _is_jqm(head: bytes) -> bool:
    found = keys(head)
    return "fluxres" not in found and (not _RELEASED.isdisjoint(found) or any(map(_MANAGERS.fullmatch, found)))


_LABELLED: Final[frozenset[Fact]] = frozenset({"names", "ids", "sizes"})
_DESCRIBED: Final[frozenset[Fact]] = _LABELLED | frozenset({"units", "properties"})
_NODES: Final = "everything above nodes, and levels between a node and its leaves (cores, GPUs, …)"

FORMATS: Final = (
    Format(
        "hyperqueue",
        "HyperQueue workers, command lines or JSON; 'hyperqueue:cpus=1x4 gpus=[0,1]' is one, 'hyperqueue:detect=all' another",
        (".hq",),
        _is_hyperqueue,
        reader="fluxres.formats.peers.hyperqueue.read:read",
        writer="fluxres.formats.peers.hyperqueue.write:write",
        live="fluxres.formats.peers.hyperqueue.read:read_words",
        carries=_LABELLED,
        loses=f"{_NODES} except groups; units, states, properties; sizes of labelled pools",
        options=frozenset({"fractions", "json"}),
    ),
    Format(
        "canary",
        "canary resource pool, YAML or JSON; 'canary:cpus=32 gpus=4' is one",
        (".canary", ".canary.json"),
        _is_canary,
        reader="fluxres.formats.peers.canary.resource_pool:read",
        writer="fluxres.formats.peers.canary.resource_pool:write",
        live="fluxres.formats.peers.canary.resource_pool:read_words",
        carries=_DESCRIBED,
        loses=f"{_NODES}; states, tags",
        options=frozenset({"form"}),
    ),
    Format(
        "ctest",
        "CTest resource specification file, version 1.0",
        (".ctest", ".ctest.json"),
        _is_ctest,
        reader="fluxres.formats.peers.ctest.resource_spec:read",
        writer="fluxres.formats.peers.ctest.resource_spec:write",
        carries=_LABELLED,
        loses=f"which node an instance is on; {_NODES}; units, states, properties; upper case in labels",
        options=frozenset({"node"}),
    ),
    Format(
        "jqm",
        "JQM resource managers, YAML or JSON",
        (".jqm", ".jqm.json"),
        _is_jqm,
        reader="fluxres.formats.peers.jqm.resource_managers:read",
        writer="fluxres.formats.peers.jqm.resource_managers:write",
        carries=_LABELLED,
        loses=f"{_NODES}; units, states, properties; sizes of items",
    ),
)
