"""Write the `[resource]` table of flux-core's configuration: hosts in the order of ranks, then the hosts with each property."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import orjson

from fluxres.allocation.resource_set import CHILDREN
from fluxres.errors import InputError
from fluxres.formats import losses
from fluxres.formats.flux.rank_columns import (
    Described,
    Targets,
    children_of,
    host_ids,
    lost,
    pools_within,
    properties_of,
    targets_of,
)
from fluxres.formats.flux.ranks import HOST
from fluxres.formats.flux.resource_config import EXCLUDED, SETTING, TABLE
from fluxres.formats.format import Hold, Output
from fluxres.graph.kinds import STATES
from fluxres.graph.structure import Structure
from fluxres.syntax import hostlist, idset

_KEYS: Final = {"core": "cores", "gpu": "gpus"}
_DRAIN: Final = STATES.index("drain")


def write(structure: Structure, allocations: Sequence[Hold] = (), *, name: str | None = None) -> Output:
    """A machine as tables of nodes.

    Errors: InputError for a machine without ranks or with one rank twice, for node names that a hostlist cannot express, for two
    nodes on one host, and for nodes without cores and gpus. Cost: O(pools) array operations, O(nodes) Python.
    """
    targets = targets_of(structure)
    described = Described.nothing(structure, targets)
    children = children_of(structure, targets)
    for type_ in CHILDREN:
        pools = pools_within(structure, targets, type_)
        described.pools[pools] = True
        described.ids[pools] = structure.id[pools] == children.numbers[pools]
    described.mixed[targets.vertices[children.mixed | children.gpus_first]] = True
    hosts = _hosts(structure, targets)
    lines = _settings(structure)
    rows = list(zip(*children.texts.values(), strict=True))
    begin = 0
    for i in range(1, len(hosts) + 1):
        if i == len(hosts) or rows[i] != rows[begin]:
            have = {_KEYS[type_]: text for type_, text in zip(children.texts, rows[begin], strict=True) if text}
            if not have:
                raise InputError(f"{hosts[begin]} has no cores and no gpus", hint="flux-core refuses such a host")
            lines += _table({"hosts": hostlist.format(hosts[begin:i]), **have})
            begin = i
    for text, ranks in properties_of(structure, targets, described).items():
        at = np.searchsorted(targets.ranks, idset.parse(ranks))
        lines += _table({"hosts": hostlist.format([hosts[i] for i in at.tolist()]), "properties": [text]})
    missing = lost(structure, allocations, targets, described, host_ids(structure, targets), name)
    missing = _said(structure, targets, described, missing)
    return Output("\n".join(lines).lstrip("\n").encode() + b"\n", missing)


def _hosts(structure: Structure, targets: Targets) -> list[str]:
    hosts = [structure.name(v) for v in targets.vertices.tolist()]
    for v in targets.vertices.tolist():
        if HOST in structure.tags.get(v, {}):
            raise InputError(f"{structure.path(v)} shares its host {structure.tags[v][HOST]!r} with another node")
    if len(set(hosts)) < len(hosts):
        twice = next(host for i, host in enumerate(hosts) if host in hosts[:i])
        raise InputError(f"two nodes are named {twice!r}", hint="the hosts of a configuration must differ")
    return hosts


def _settings(structure: Structure) -> list[str]:
    """The tables other than nodes, from the tags of the root."""
    tags = sorted(structure.tags.get(0, {}).items())
    lines, settings = (
        [f"{_key(key[len(prefix) :])} = {_kept(key, value)}" for key, value in tags if key.startswith(prefix)]
        for prefix in (TABLE, SETTING)
    )
    excluded = [v for v, values in structure.tags.items() if EXCLUDED in values and structure.state[v] == _DRAIN]
    if excluded:
        settings.append(f"exclude = {_value(hostlist.format([structure.name(v) for v in sorted(excluded)]))}")
    return [*lines, "", "[resource]", *settings] if settings else lines


def _table(values: dict[str, Any]) -> list[str]:
    return ["", "[[resource.config]]", *(f"{key} = {_value(value)}" for key, value in values.items())]


def _kept(key: str, text: str | None) -> str:
    try:
        return _value(orjson.loads(text or ""))
    except orjson.JSONDecodeError as error:
        raise InputError(f"the tag {key} of the root is not JSON: {error.msg}", hint="remove the tag") from None


def _key(text: str) -> str:
    return text if text and all(c.isascii() and (c.isalnum() or c in "-_") for c in text) else _value(text)


def _value(value: Any) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if value is None:
        raise InputError("TOML has no null", hint="remove the tag")
    # TOML's basic strings allow all escapes of JSON and require one more.
    return orjson.dumps(value).decode().replace("\x7f", "\\u007f")


def _said(structure: Structure, targets: Targets, described: Described, missing: list[str]) -> list[str]:
    """The list of what is lost, adjusted for a configuration: ranks count up from 0, and exclusion and settings are kept."""
    kept = [line for line in missing if line.partition(":")[0] not in ("states", "tags")]
    drained = np.zeros(structure.n, np.bool_)
    tagged = np.zeros(structure.n, np.bool_)
    is_target = np.zeros(structure.n, np.bool_)
    is_target[targets.vertices] = True
    for v, tags in structure.tags.items():
        drained[v] = EXCLUDED in tags and is_target[v] and structure.state[v] == _DRAIN
        said = {EXCLUDED} if drained[v] else {key for key in tags if key.startswith((SETTING, TABLE))} if v == 0 else set()
        tagged[v] = bool(tags.keys() - said)
    kept += losses.concern(structure, "tags", tagged & described.pools)
    kept += losses.concern(structure, "states", (structure.state != 0) & ~drained & described.pools)
    if not np.array_equal(targets.ranks, np.arange(len(targets.ranks))):
        kept.append(f"ranks: of {len(targets.ranks)} nodes, which become 0, 1, …")
    return kept
