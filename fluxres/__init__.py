"""fluxres: the resource model of Flux RFC 4 and RFC 16, for people who write schedulers.

The public names are resolved when first used (PEP 562).  Importing NumPy takes longer than many a command
runs, and ``fluxres --help`` or a shell completion needs none of it, so ``import fluxres`` itself loads
nothing but this table.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # type checkers take it as true; `typing` would be the first import that takes its time
if TYPE_CHECKING:
    from fluxres.errors import (
        FluxresError,
        Forbidden,
        InDoubt,
        InfeasibleRequest,
        InputError,
        InputWarning,
        InsufficientResources,
        KeyReused,
        LimitExceeded,
        ListenerError,
        MergeConflict,
        NotHeld,
        NothingHeld,
        NotInAccounting,
        PolicyError,
        RevisionConflict,
        RunFailed,
        ServiceFault,
        StaleHandle,
        StillHeld,
        StoreBusy,
        StoreConflict,
        StoreError,
        StoreUnreachable,
        Unauthorized,
        Unavailable,
        UnknownGraph,
        UnknownJob,
        UnknownPool,
        UnknownType,
        UsageError,
    )
    from fluxres.formats.builder import AuxiliaryGraph, Edge, Resource, build
    from fluxres.instance import Instance, Job, QueuePolicy
    from fluxres.match import Policy
    from fluxres.model import Allocation, Pool, Problem, ResourceGraph, Selection, Span, Stage
    from fluxres.model.match import Match
    from fluxres.service.client import connect
    from fluxres.service.client.async_child import aopen_child
    from fluxres.service.client.async_graph import aconnect
    from fluxres.service.client.child import open_child
    from fluxres.store.attached import open
    from fluxres.store.child import Child
    from fluxres.store.files import dumps, load, loads, save
    from fluxres.syntax.hostlist import Hostlist
    from fluxres.syntax.idset import IDset
    from fluxres.syntax.jobspec import Request
    from fluxres.syntax.resource_set import ResourceSet

__version__ = "0.1.0"

__all__ = [
    "Allocation",
    "AuxiliaryGraph",
    "Child",
    "Edge",
    "FluxresError",
    "Forbidden",
    "Hostlist",
    "IDset",
    "InDoubt",
    "InfeasibleRequest",
    "InputError",
    "InputWarning",
    "Instance",
    "InsufficientResources",
    "Job",
    "KeyReused",
    "LimitExceeded",
    "ListenerError",
    "Match",
    "MergeConflict",
    "NotHeld",
    "NotInAccounting",
    "NothingHeld",
    "Policy",
    "PolicyError",
    "Pool",
    "Problem",
    "QueuePolicy",
    "Request",
    "Resource",
    "ResourceGraph",
    "ResourceSet",
    "RevisionConflict",
    "RunFailed",
    "Selection",
    "ServiceFault",
    "Span",
    "Stage",
    "StaleHandle",
    "StillHeld",
    "StoreBusy",
    "StoreConflict",
    "StoreError",
    "StoreUnreachable",
    "Unauthorized",
    "Unavailable",
    "UnknownGraph",
    "UnknownJob",
    "UnknownPool",
    "UnknownType",
    "UsageError",
    "__version__",
    "aconnect",
    "aopen_child",
    "build",
    "connect",
    "dumps",
    "load",
    "loads",
    "open",
    "open_child",
    "save",
]

_MODULE = {
    **dict.fromkeys(("ResourceGraph", "Pool", "Selection", "Allocation", "Span", "Stage", "Problem"), "fluxres.model"),
    **dict.fromkeys(("dumps", "load", "loads", "save"), "fluxres.store.files"),
    **dict.fromkeys(("Instance", "Job", "QueuePolicy"), "fluxres.instance"),
    "aconnect": "fluxres.service.client.async_graph",
    "aopen_child": "fluxres.service.client.async_child",
    "connect": "fluxres.service.client",
    "open": "fluxres.store.attached",
    "Child": "fluxres.store.child",
    "open_child": "fluxres.service.client.child",
    "Match": "fluxres.model.match",
    "Policy": "fluxres.match",
    **dict.fromkeys(("AuxiliaryGraph", "Edge", "Resource", "build"), "fluxres.formats.builder"),
    "Request": "fluxres.syntax.jobspec",
    "Hostlist": "fluxres.syntax.hostlist",
    "IDset": "fluxres.syntax.idset",
    "ResourceSet": "fluxres.syntax.resource_set",
}
"""Where a public name lives; what is not here is an error class."""


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'fluxres' has no attribute {name!r}")
    value: object = getattr(import_module(_MODULE.get(name, "fluxres.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
