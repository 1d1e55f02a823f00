"""The machine that this program runs on as a cluster of one node: sockets, NUMA domains, cores, GPUs and memory.

Under a CPU quota that is smaller than the cores, cores are time and not places. The node then has as many cores as the quota has
whole CPUs, at least one, in one socket, and each of them is all CPUs that may be used: a job that is bound to its cores is not
bound, and containers side by side do not all crowd on the lowest CPUs. A part of a CPU is not handed out, as by Rust's
``available_parallelism``, which HyperQueue asks; nproc rounds to the nearest number, Go and Java round up, Slurm ignores quotas.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fluxres.documents.document import excerpt, plural
from fluxres.documents.suggestion import nearest
from fluxres.errors import UsageError
from fluxres.formats.format import Loaded
from fluxres.formats.machine import gpus as gpu_readers
from fluxres.formats.machine.cgroups import Cgroups, Limit
from fluxres.formats.machine.cpus import SYSTEM, Core, cores, model, usable
from fluxres.formats.machine.files import Files
from fluxres.formats.machine.gpus import Gpu, Seen
from fluxres.formats.machine.memory import GPU, Domain, memory
from fluxres.graph.assemble import assemble
from fluxres.graph.kinds import Kind, KindTable, PropertyValue, properties_tuple
from fluxres.syntax import idset
from fluxres.syntax.name import is_name

_VENDORS: Final = ("nvidia", "amd", "intel")
#: what can be detected, by the words of HyperQueue's --detect-resources and their plain forms
PARTS: Final[dict[str, frozenset[str]]] = {
    "cpus": frozenset({"cpus"}),
    "mem": frozenset({"mem"}),
    "gpus": frozenset(_VENDORS),
    **{f"gpus/{vendor}": frozenset({vendor}) for vendor in _VENDORS},
    "all": frozenset({"cpus", "mem", *_VENDORS}),
}
_NAME: Final = "this-machine"
_HOST: Final = "node0"
_HOST_DIGITS: Final = re.compile(r"(.*?)([0-9]{0,18})", re.DOTALL)


def read(text: str = "", *, origin: int | None = None, cluster: str = "cluster") -> Loaded:
    """The machine that ``this-machine`` or ``this-machine:detect=PART,…`` names.

    Args:
        text: what follows the colon; empty for everything.
        cluster: name of the root.

    Errors: UsageError for other text.
    """
    key, _, value = text.strip().partition("=")
    if key and key != "detect":
        raise UsageError(f"unknown option {excerpt(key)}", where=_NAME, hint=f"such as {_NAME}:detect=cpus,gpus/nvidia")
    return this_machine(detect=value if key else "all", origin=origin, cluster=cluster)


def this_machine(
    root: Path = Path("/"),
    environ: Mapping[str, str] = os.environ,
    affinity: Collection[int] | None = None,
    *,
    detect: str = "all",
    origin: int | None = None,
    cluster: str = "cluster",
) -> Loaded:
    """The machine whose file system has this root: a cluster of one node.

    Args:
        root: a recorded tree of /proc, /sys and /dev, or the machine itself.
        environ: variables such as CUDA_VISIBLE_DEVICES.
        affinity: CPUs that may be used; by default those of this process, or what the tree says.
        detect: the parts to detect, separated by commas: `PARTS`.
        origin: base of the uuids; random by default.
        cluster: name of the root.

    `Loaded.seen` says what was found and where, `Loaded.notes` what was left out.
    Errors: UsageError for unknown parts, and a name that no pool can have.
    Cost: 3 ms for 128 cores and 8 GPUs; more only where nvidia-smi has to be asked for MIG instances.
    """
    if not is_name(cluster, without="/"):
        raise UsageError(f"expected a name for the cluster, got {excerpt(cluster)}", hint="a name has no '/'")
    parts, files = _parts(detect), Files(root)
    cgroups = Cgroups(files)
    found = _Found()
    if "cpus" in parts:
        _find_cores(files, affinity, cgroups, found)
    if "mem" in parts or "cpus" in parts:
        _find_memory(files, cgroups, found, "mem" in parts)
    vendors = [vendor for vendor in _VENDORS if vendor in parts]
    if vendors:
        _find_gpus(gpu_readers.gpus(files, environ, vendors), vendors, found)
    host = _host(files)
    tree = _Tree(cluster, host)
    tree.add_machine(found)
    structure = assemble(tree.parent, tree.kind, kinds=tree.kinds, size=tree.size, id=tree.id, names=tree.names, origin=origin)
    return Loaded(structure.structure, [], host, files.notes.lines(), tuple(found.said))


def _parts(text: str) -> frozenset[str]:
    chosen: set[str] = set()
    for word in text.split(","):
        word = word.strip()
        if word not in PARTS:
            where, hint = f"{_NAME}:detect", nearest(word, [*PARTS])
            raise UsageError(f"unknown part {excerpt(word)}", where=where, hint=hint or f"the parts are {', '.join(PARTS)}")
        chosen |= PARTS[word]
    return frozenset(chosen)


# -- what is there -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Found:
    """What was detected.

    Args:
        is_time: whether cores are time on any of the CPUs, and not particular CPUs.
        socket: properties of each socket.
        said: sentences on what was found and where.
    """

    cores: list[Core] = field(default_factory=list)
    is_time: bool = False
    domains: list[Domain] = field(default_factory=list)
    gpus: list[Gpu] = field(default_factory=list)
    socket: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def say(self, what: str, where: str) -> None:
        self.said.append(f"{_NAME}: {what} ({where})")


def _find_cores(files: Files, affinity: Collection[int] | None, cgroups: Cgroups, found: _Found) -> None:
    cpus, online, where = usable(files, affinity, cgroups)
    if not cpus:
        files.note("no cpus", SYSTEM, "no CPU is known")
        return
    found.socket = model(files)
    found.cores = cores(files, cpus)
    whole = "all" if len(cpus) == online else f"{len(cpus)} of {online}"
    found.say(f"CPUs {idset.format(cpus)}, {whole} that are online", where)
    sockets = len({core.socket for core in found.cores})
    kinds = Counter(core.kind for core in found.cores if core.kind)
    more = f": {', '.join(f'{number} {kind}' for kind, number in kinds.items())}" if kinds else ""
    what = f"{plural(len(found.cores), 'core')} in {plural(sockets, 'socket')}{more}"
    found.say(what, files.path(f"{SYSTEM}/cpu*/topology"))
    quota = cgroups.quota()
    if quota is not None:
        _apply(quota, cpus, files, found)


def _apply(quota: Limit, cpus: Collection[int], files: Files, found: _Found) -> None:
    # 2.9999999 is what three CPUs may come to.
    count = max(1, int(quota.value + 1e-6))
    if count < len(found.cores):
        found.cores, found.is_time = [Core(tuple(sorted(cpus)), 0)] * count, True
        what = f"quota of {quota.value:g} CPUs: {plural(count, 'core')}, each on any of these CPUs"
    else:
        what = f"quota of {quota.value:g} CPUs, enough for all cores"
    found.say(what, files.path(quota.file))


def _find_memory(files: Files, cgroups: Cgroups, found: _Found, counts: bool) -> None:
    seen = memory(files, cgroups)
    found.domains = seen.domains
    if not counts:
        found.domains = [Domain(each.number, each.cpus, 0) for each in seen.domains]
        return
    with_memory = [each for each in seen.domains if each.size_mib and each.kind != GPU]
    if not with_memory:
        files.note("no memory", "/proc/meminfo", "no memory is known")
        return
    total = sum(each.size_mib for each in with_memory)
    divided = f" in {len(with_memory)} NUMA domains" if len(with_memory) > 1 else ""
    limited = f", limited by {seen.limited}" if seen.limited else ""
    found.say(f"memory of {total} MiB{divided}{limited}", seen.where)


def _find_gpus(seen: Iterable[Seen], vendors: Iterable[str], found: _Found) -> None:
    for each in seen:
        found.gpus += each.gpus
        if each.where:
            models = Counter(gpu.model or gpu.vendor for gpu in each.gpus)
            listed = ", ".join(f"{number} {name}" for name, number in models.items())
            found.say(f"{plural(len(each.gpus), 'GPU')}{f': {listed}' if listed else ''}", each.where)
    if not found.gpus and not any(each.where for each in seen):
        found.said.append(f"{_NAME}: no GPU of {', '.join(vendors)}")


def _host(files: Files) -> str:
    """The short name of the host."""
    name = (files.text("/proc/sys/kernel/hostname") or "").strip()
    if not name and not files.root:
        name = os.uname().nodename
    short = name.partition(".")[0]
    return short if is_name(short, without="/") and short != "(none)" else _HOST


# -- its pools ---------------------------------------------------------------------------------------------------------------


class _Tree:
    """The pools as columns."""

    def __init__(self, cluster: str, host: str) -> None:
        self.kinds = KindTable()
        self.parent: list[int] = []
        self.kind: list[int] = []
        self.size: list[int] = []
        self.id: list[int] = []
        self.names: dict[int, str] = {}
        root = self.add(-1, "cluster", -1, basename=cluster)
        # As for other formats, digits at the end of a host name are the id of its node.
        match = _HOST_DIGITS.fullmatch(host)
        stem, digits = match.groups() if match is not None else (host, "")
        self.node = self.add(root, "node", int(digits) if digits else -1, basename=stem or "node")
        if not stem or (digits and str(int(digits)) != digits):
            self.names[self.node] = host

    def add(
        self,
        parent: int,
        type_: str,
        id_: int,
        properties: Mapping[str, PropertyValue] | None = None,
        *,
        basename: str = "",
        size: int = 1,
        unit: str | None = None,
    ) -> int:
        said = properties_tuple(properties.items()) if properties else ()
        self.parent.append(parent)
        self.kind.append(self.kinds.intern(Kind(type_, basename or type_, unit, None, said)))
        self.size.append(size)
        self.id.append(id_)
        return len(self.parent) - 1

    def add_machine(self, found: _Found) -> None:
        place = self._add_cores(found)
        sockets = [at for at, kind in enumerate(self.kind) if self.kinds[kind].type == "socket"]
        usual = sockets[0] if len(sockets) == 1 else self.node
        for number, gpu in enumerate(found.gpus):
            self.add(place.get(gpu.numa, usual), "gpu", number, gpu.properties())
        for domain in found.domains:
            if domain.size_mib:
                near = domain.near if domain.near is not None and domain.number not in place else domain.number
                type_ = "gpumemory" if domain.kind == GPU else "memory"
                properties = {"kind": domain.kind} if domain.kind not in ("", GPU) else None
                self.add(place.get(near, usual), type_, domain.number, properties, size=domain.size_mib, unit="MiB")

    def _add_cores(self, found: _Found) -> dict[int, int]:
        """Add sockets, NUMA domains and cores; the pool that devices and memory of a domain are in, by its number."""
        domains = {} if found.is_time else {cpu: each.number for each in found.domains for cpu in each.cpus}
        domain_of = [domains.get(core.cpus[0], -1) for core in found.cores]
        nesting, several = _nesting(found.cores, domain_of)
        rows: dict[tuple[tuple[str, int], ...], int] = {(): self.node}
        place: dict[int, int] = {}
        for number, (core, domain) in enumerate(zip(found.cores, domain_of, strict=True)):
            chain: tuple[tuple[str, int], ...] = (("socket", core.socket),)
            if domain >= 0 and nesting == "around":
                chain = (("numa", domain), *chain)
            elif domain >= 0 and core.socket in several:
                chain = (*chain, ("numa", domain))
            for level in range(1, len(chain) + 1):
                above, (type_, id_) = rows[chain[: level - 1]], chain[level - 1]
                if chain[:level] not in rows:
                    rows[chain[:level]] = self.add(above, type_, id_, found.socket if type_ == "socket" else None)
            place[domain] = rows[{"inside": chain, "around": chain[:1], "apart": ()}[nesting]]
            properties: dict[str, PropertyValue] = {"cpus": idset.format(core.cpus)}
            if core.kind:
                properties["kind"] = core.kind
            self.add(rows[chain], "core", number, properties)
        place.pop(-1, None)
        # Domains of sockets without usable CPUs.
        elsewhere = {} if found.is_time else {each.number: self.node for each in found.domains if each.cpus}
        return elsewhere | place


def _nesting(cores: Iterable[Core], domain_of: Iterable[int]) -> tuple[str, frozenset[int]]:
    """Whether NUMA domains are inside sockets, around them or apart from them; and the sockets that have several inside.

    Virtual machines have several sockets in one domain.
    """
    sockets_of: dict[int, set[int]] = {}
    domains_of: dict[int, set[int]] = {}
    for core, domain in zip(cores, domain_of, strict=True):
        sockets_of.setdefault(domain, set()).add(core.socket)
        domains_of.setdefault(core.socket, set()).add(domain)
    if all(len(each) == 1 for each in sockets_of.values()):
        return "inside", frozenset(socket for socket, each in domains_of.items() if len(each) > 1)
    is_around = len(sockets_of) > 1 and all(len(each) == 1 for each in domains_of.values())
    return "around" if is_around else "apart", frozenset()
