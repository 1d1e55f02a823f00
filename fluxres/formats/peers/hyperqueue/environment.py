"""The variables that HyperQueue gives to a task for what it was given, and those that say which devices a worker has.

Pure: what was granted goes in, names and values come out.  Versions up to 0.12 wrote the amount alone into
``HQ_RESOURCE_REQUEST_…``, later ones write the policy behind it, and programs that read it exist for both.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from fluxres.formats.machine.visible import CUDA, ROCR, words
from fluxres.formats.peers.hyperqueue.definitions import CPUS
from fluxres.formats.peers.hyperqueue.request import ALL, Ask, format_value
from fluxres.formats.peers.hyperqueue.tokens import PER_UNIT, format_amount

_OTHER = re.compile(r"[^A-Za-z0-9]")
_CUDA: Final = ("gpus/nvidia", "gpus")
_DETECTED: Final = {CUDA: "gpus/nvidia", ROCR: "gpus/amd"}


@dataclass(frozen=True, slots=True)
class Grant:
    """What a task was given of one resource.

    Args:
        labels: of the indices, the one it has a fraction of last; None for a sum, which has none.
        amount: ten-thousandths; what `all` came to, else as asked.
    """

    ask: Ask
    labels: tuple[str, ...] | None
    amount: int


def variable(name: str) -> str:
    """The name of a resource inside the name of a variable: every other character becomes an underscore.

    >>> variable("gpus/amd")
    'gpus_amd'
    """
    # Bytes, as there: a letter outside ASCII is as many underscores as it has bytes.
    return _OTHER.sub(lambda other: "_" * len(other[0].encode("utf-8", "surrogatepass")), name)


def environment(
    grants: Sequence[Grant],
    *,
    policy: bool = True,
    variant: int | None = None,
    pin: Literal["taskset", "omp"] | None = None,
    user: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The variables of a task on one worker.

    Args:
        policy: whether a request names its policy (since version 0.13) or only the amount.
        variant: which variant was taken, from 0; None where the task has one only.
        pin: how the task is pinned to its cpus.
        user: variables that the task has already; those for OpenMP are not set over them.

    Source: HyperQueue, resources of jobs.

    >>> given = Grant(Ask("cpus", 20000), ("3", "2"), 20000)
    >>> environment([given])["HQ_RESOURCE_REQUEST_cpus"], environment([given], policy=False)["HQ_RESOURCE_REQUEST_cpus"]
    ('2 compact', '2')
    """
    made: dict[str, str] = {}
    own = user or {}
    for grant in grants:
        name = variable(grant.ask.name)
        bare = not policy and grant.ask.amount != ALL
        made[f"HQ_RESOURCE_REQUEST_{name}"] = format_amount(grant.ask.amount) if bare else format_value(grant.ask)
        if grant.labels is not None:
            made[f"HQ_RESOURCE_VALUES_{name}"] = ",".join(grant.labels)
            made |= _devices(grant.ask.name, ",".join(grant.labels))
        if grant.ask.name == CPUS:
            made |= _cpus(grant, pin, own)
    if variant is not None:
        made["HQ_RESOURCE_VARIANT"] = str(variant)
    return made


def _devices(name: str, labels: str) -> dict[str, str]:
    if name in _CUDA:
        return {CUDA: labels, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {ROCR: labels} if name == "gpus/amd" else {}


def _cpus(grant: Grant, pin: str | None, user: Mapping[str, str]) -> dict[str, str]:
    made: dict[str, str] = {}
    if grant.labels is not None:
        made["HQ_CPUS"] = ",".join(grant.labels)
    if grant.amount % PER_UNIT == 0 and "OMP_NUM_THREADS" not in user:
        made["OMP_NUM_THREADS"] = str(grant.amount // PER_UNIT)
    if pin is not None:
        made["HQ_PIN"] = pin
    if pin == "omp" and grant.labels is not None:
        wanted = {"OMP_PROC_BIND": "close", "OMP_PLACES": "{" + ",".join(grant.labels) + "}"}
        made |= {key: value for key, value in wanted.items() if key not in user}
    return made


def detected(environment: Mapping[str, str], *, seed: bool = False) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """The lists of devices that a worker's environment names, and what was wrong with others, in words.

    Args:
        seed: as versions up to 0.12: NVIDIA's devices only, under the name ``gpus``, sorted, repeats dropped.

    >>> detected({"CUDA_VISIBLE_DEVICES": "2,3", "ROCR_VISIBLE_DEVICES": "1,1"})
    ({'gpus/nvidia': ('2', '3')}, ["ROCR_VISIBLE_DEVICES is ignored: '1' stands in it twice"])
    """
    found: dict[str, tuple[str, ...]] = {}
    ignored: list[str] = []
    for key, name in _DETECTED.items():
        labels = words(environment.get(key, ""))
        if seed:
            if labels and name == "gpus/nvidia":
                found["gpus"] = tuple(sorted(set(labels), key=lambda label: (len(label), label)))
            continue
        if len(set(labels)) < len(labels):
            again = Counter(labels).most_common(1)[0][0]
            ignored.append(f"{key} is ignored: {again!r:.60} stands in it twice")
        elif labels:
            found[name] = tuple(labels)
    return found, ignored
