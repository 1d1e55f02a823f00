"""The variables of a CTest test from what was allocated to it, and the resource specification file of what a job holds.

With the file, the real `ctest` runs a project's tests inside an allocation: it hands out the slots of the job among its tests,
while everything else on the machine is handed out by fluxres to others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fluxres.errors import UsageError
from fluxres.formats.peers import grants, instances
from fluxres.formats.peers.ctest import groups, resource_spec
from fluxres.formats.peers.ctest.allocator import Packing
from fluxres.formats.peers.grants import Granted
from fluxres.model import ResourceGraph
from fluxres.model.values import Allocation
from fluxres.syntax.jobspec import Request
from fluxres.syntax.variants import type_of

SPEC_FILE: Final = "CTEST_RESOURCE_SPEC_FILE"
"""The variable that names the file to scripts of `ctest`."""
_OPTION: Final = "--resource-spec-file"


def environment(request: Request, granted: Granted) -> dict[str, str]:
    """The variables `CTEST_RESOURCE_GROUP_*` of a test.

    Errors: UsageError for a request of another system.

    >>> import fluxres
    >>> machine = fluxres.load("canary:gpus=2 slots_per_gpu=4")
    >>> request = fluxres.Request.parse("2,gpus:3", format="ctest")
    >>> environment(request, machine.allocate(request, job="t"))["CTEST_RESOURCE_GROUP_1_GPUS"]
    'id:1,slots:3'
    """
    rule, structure = request.chooser, grants.structure_of(granted)
    if not isinstance(rule, Packing):
        raise UsageError("this is no request of CTest", hint="Request.parse(text, format='ctest') reads one")
    wanted = [(at, need) for at, needs in enumerate(groups.expand(rule.groups)) for need in needs]
    items = [grants.Item(at, type_of(need.type, structure.types), need.slots) for at, need in wanted]
    given: list[dict[str, list[tuple[str, int]]]] = [{} for _ in range(groups.processes(rule.groups))]
    for (at, need), picked in zip(wanted, grants.picked(granted, items), strict=True):
        given[at].setdefault(need.type, []).append((_label(granted, picked.vertex), need.slots))
    return groups.environment(given)


def _label(granted: Granted, v: int) -> str:
    structure = grants.structure_of(granted)
    node = max(each for each in instances.nodes(structure) if each <= v)
    some = instances.inside(structure, node, structure.types[structure.type.item(v)])
    return instances.labels(structure, some)[int(some.searchsorted(v))]


def spec_file(held: Allocation | ResourceGraph, job: str | None = None) -> str:
    """The resource specification file (version 1.0) of what a job holds, for `ctest --resource-spec-file`.

    Args:
        held: an allocation, or a graph and the id of a job in it.

    Errors: UnknownJob; UsageError for a graph without a job.

    >>> import fluxres
    >>> machine = fluxres.load("canary:gpus=2 cpus=8")
    >>> spec_file(machine.allocate("slot=1/gpu=1", job="j"))
    '{"version":{"major":1,"minor":0},"local":[{"gpus":[{"id":"0","slots":1}]}]}\\n'
    """
    return resource_spec.write(grants.machine_of(held, job)).data.decode()


def spec_environment(path: str) -> dict[str, str]:
    """The variable that names the file to what runs in the allocation; see also :func:`with_spec_file`.

    >>> spec_environment("/tmp/spec.json")
    {'CTEST_RESOURCE_SPEC_FILE': '/tmp/spec.json'}
    """
    return {SPEC_FILE: path}


def with_spec_file(command: Sequence[str], path: str) -> list[str]:
    """A command with the option that makes `ctest` read the file; a command that is not `ctest`, or says so itself, is kept.

    The variable alone reaches scripts (``ctest -S``) only: `ctest` itself reads the option.

    >>> with_spec_file(["ctest", "-j8"], "/tmp/spec.json")
    ['ctest', '--resource-spec-file', '/tmp/spec.json', '-j8']
    """
    return grants.with_option(command, "ctest", _OPTION, path)
