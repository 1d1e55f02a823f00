"""Requests flattened into nodes, slots, cores and GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from fluxres.errors import InputError
from fluxres.syntax import count, jobspec
from fluxres.syntax.flat_request import FlatRequest, flatten
from fluxres.syntax.jobspec import Request, parse_shape


def asked(text: str, **more: Any) -> FlatRequest:
    return flatten(Request(parse_shape(text)), **more)


def numbers(flat: FlatRequest) -> tuple[Any, ...]:
    return flat.nnodes, flat.nnodes_max, flat.nslots, flat.nslots_max, flat.slot_size, flat.gpu_per_slot, flat.exclusive


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("slot/core", (0, 0, 1, 1, 1, 0, False)),
        ("slot=4/[core=2;gpu]", (0, 0, 4, 4, 2, 1, False)),
        ("slot=2-5/core", (0, 0, 2, 5, 1, 0, False)),
        ("slot=2+/core", (0, 0, 2, None, 1, 0, False)),
        ("node=3/slot=2/core=4", (3, 3, 6, 6, 4, 0, False)),
        ("node=2-4/slot=3/core", (2, 4, 6, 12, 1, 0, False)),
        ("node=2+/slot/core", (2, None, 2, None, 1, 0, False)),
        ("node=2{x}/slot/core", (2, 2, 2, 2, 1, 0, True)),
        ("slot=3{t,x}/core=2", (3, 3, 3, 3, 2, 0, True)),
        ("node{-x}/slot/core", (1, 1, 1, 1, 1, 0, False)),
        ("rack=2/node=3/slot/core", (6, 6, 6, 6, 1, 0, False)),
        ("rack=2/switch=2/slot=2/node=1-3/core", (8, 24, 16, 48, 1, 0, False)),
        ("node/socket=2/slot=2/core=3", (1, 1, 2, 2, 3, 0, False)),
        ("slot/[memory=4;core=2;nic/gpu=3]", (0, 0, 1, 1, 2, 3, False)),
        ("[slot=2{a}/core=2;slot=3{b}/core=5]", (0, 0, 3, 3, 5, 0, False)),
        ("slot/core=2-4", (0, 0, 1, 1, 2, 0, False)),
    ],
)
def test_counts(text: str, expected: tuple[Any, ...]) -> None:
    assert numbers(asked(text)) == expected


@pytest.mark.parametrize(
    ("text", "container", "expected"),
    [
        ("slot=2/numa{x}", "numa", (0, 0, 2, 2, 0, 0, False)),
        ("node=2/slot=2/socket{x}", "socket", (2, 2, 4, 4, 0, 0, False)),
        ("slot=3/node{x}", None, (3, 3, 3, 3, 0, 0, True)),
        ("slot=4/node/core=2", None, (4, 4, 4, 4, 2, 0, False)),
        ("slot=4/node=2/core=2", None, (8, 8, 8, 8, 2, 0, False)),
        ("rack=3/slot=2/node/core=2", None, (6, 6, 12, 12, 2, 0, False)),
        ("node/slot=8/[core=15;gpu]", None, (1, 1, 8, 8, 15, 1, False)),
        ("slot/numa{x}/core=2", None, (0, 0, 1, 1, 2, 0, False)),
        ("slot=2/core=2", None, (0, 0, 2, 2, 2, 0, False)),
    ],
)
def test_containers_and_slots_above_nodes(text: str, container: str | None, expected: tuple[Any, ...]) -> None:
    flat = asked(text, containers=True)
    assert numbers(flat) == expected
    assert flat.container == container


def test_counts_are_kept_as_written() -> None:
    flat = asked("rack=2/slot=1-4{a}/core", containers=False)
    assert (flat.node_factor, flat.node_count, str(flat.slot_count), flat.gpu_count) == (0, None, "1-4", None)
    flat = asked("rack=2/node=1-4/slot=3/[core=2;gpu=2]")
    assert (flat.node_factor, str(flat.node_count), flat.slot_count) == (2, "1-4", count.exactly(3))
    assert not flat.is_stepped
    assert asked("slot=2,4/core").is_stepped
    assert asked("node=2-8:2:*/slot/core").is_stepped


def test_duration_and_constraint_are_kept() -> None:
    vertices = parse_shape("slot/core")
    values = {"system": {"duration": 60, "constraints": {"ranks": ["0"]}}}
    task = {"command": ["a"], "slot": "task", "count": {"per_slot": 1}}
    made = {"version": 1, "resources": jobspec.resources_to_plain(vertices), "tasks": [task], "attributes": values}
    flat = flatten(jobspec.parse(made))
    assert (flat.duration_s, flat.constraint is None) == (60.0, False)
    values["system"] = {"constraints": {}}
    assert flatten(jobspec.parse(made)) == flatten(Request(vertices))


@pytest.mark.parametrize(
    ("text", "containers", "where"),
    [
        ("node=2", False, "resources"),
        ("node/core", True, "resources"),
        ("slot/node", False, "resources"),
        ("slot/node", True, "resources"),
        ("slot/node{x}", False, "resources"),
        ("slot/numa{x}", False, "resources"),
        ("slot/gpu", True, "resources"),
        ("slot=2-4/node/core", False, "resources[0].with[0]"),
        ("rack=2+/switch/node/slot/core", True, "resources[0].with[0].with[0]"),
    ],
)
def test_unusable_requests_are_refused(text: str, containers: bool, where: str) -> None:
    with pytest.raises(InputError) as refused:
        asked(text, containers=containers)
    assert refused.value.where == where
