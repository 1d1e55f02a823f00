"""Short options have the same meaning as in `flux run`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluxres.errors import InputError, UsageError
from fluxres.syntax import jobspec
from fluxres.syntax.options import parse_options


def plain(**options: Any) -> list[dict[str, Any]]:
    """The resources section of options, which the jobspec reader accepts."""
    made = parse_options(**options)
    written = jobspec.resources_to_plain(made)
    assert jobspec.parse_resources(written) == made
    return written


def test_tasks_alone() -> None:
    assert plain() == [{"type": "slot", "count": 1, "with": [{"type": "core", "count": 1}], "label": "task"}]
    (slot,) = plain(n=3, c=4, g=2)
    assert slot["count"] == 3
    assert slot["with"] == [{"type": "core", "count": 4}, {"type": "gpu", "count": 2}]


@pytest.mark.parametrize(("nodes", "tasks", "per_node"), [(4, None, 1), (4, 4, 1), (4, 8, 2), (4, 5, 2), (1, 7, 7)])
def test_tasks_are_distributed_over_nodes(nodes: int, tasks: int | None, per_node: int) -> None:
    (node,) = plain(N=nodes, n=tasks)
    assert (node["type"], node["count"], node["with"][0]["count"]) == ("node", nodes, per_node)
    assert "exclusive" not in node


def test_nodes_as_a_count_and_exclusive() -> None:
    (node,) = plain(N="2+", x=True)
    assert (node["count"], node["exclusive"]) == ({"min": 2}, True)
    assert jobspec.parse_resources([node])[0].is_exclusive


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"N": 0}, "-N"),
        ({"N": "3-1"}, "-N"),
        ({"N": True}, "-N"),
        ({"n": 0}, "-n"),
        ({"n": "2"}, "-n"),
        ({"c": 0}, "-c"),
        ({"c": 2**63}, "-c"),
        ({"g": -1}, "-g"),
        ({"g": 1.5}, "-g"),
        ({"x": True}, "-x"),
        ({"N": 4, "n": 3}, "-n"),
        ({"N": "2-4", "n": 4}, "-N"),
    ],
)
def test_refused(options: dict[str, Any], where: str) -> None:
    with pytest.raises((InputError, UsageError)) as refused:
        parse_options(**options)
    assert refused.value.where == where


@given(st.integers(1, 100) | st.none(), st.integers(1, 400) | st.none(), st.integers(1, 64), st.integers(0, 8))
def test_every_task_has_a_slot_and_few_slots_are_left_over(nodes: int | None, tasks: int | None, cores: int, gpus: int) -> None:
    try:
        made = parse_options(nodes, tasks, cores, gpus)
    except UsageError:
        assert nodes is not None
        assert tasks is not None
        assert tasks < nodes
        return
    (top,) = made
    slots = top.count.min if top.is_slot else top.count.min * top.children[0].count.min
    wanted = tasks or nodes or 1
    assert wanted <= slots < wanted + (nodes or 1)
