"""Options have the same meaning as in `flux run`, and in `sbatch` where that has another name for it."""

from __future__ import annotations

import math
import shlex
from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import given as made_of
from hypothesis import strategies as st

from fluxres.errors import InputError, UsageError
from fluxres.syntax import jobspec, options
from fluxres.syntax.constraint import And, Constraint, Hostlist, Not, Or, Properties
from fluxres.syntax.jobspec import as_request, of_options, parse_shape
from fluxres.syntax.options import OPTIONS, parse_options


def plain(**given: Any) -> list[dict[str, Any]]:
    """The resources section of options, which the jobspec reader accepts."""
    made = parse_options(**given)
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
    ("given", "where"),
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
def test_refused(given: dict[str, Any], where: str) -> None:
    with pytest.raises((InputError, UsageError)) as refused:
        parse_options(**given)
    assert refused.value.where == where


@made_of(st.integers(1, 100) | st.none(), st.integers(1, 400) | st.none(), st.integers(1, 64), st.integers(0, 8))
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


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("--nodes=4", "node=4/slot/core"),
        ("--nodes 2-4 --exclusive", "node=2-4{x}/slot/core"),
        ("--ntasks 3 --cpus-per-task 2 --gpus-per-task=1", "slot=3/[core=2;gpu]"),
        ("--cores-per-task=2", "slot/core=2"),
        ("-N2 --tasks-per-node 4 -c2", "node=2/slot=4/core=2"),
        ("-N2 --ntasks-per-node=4", "node=2/slot=4/core"),
        ("-N2 --gpus-per-node 4", "node=2/slot/[core;gpu=4]"),
        ("-N2 -n8 --gpus-per-node 2", "node=2/[slot=4/core;gpu=2{x}]"),
        ("--cores 16", "slot=16/core"),
        ("--cores 16 -N4 --gpus-per-node=1", "node=4/slot/[core=4;gpu]"),
        ("-w node[0-2]", "node=3/slot/core"),
        ("-w node0,node0 -c2", "node/slot/core=2"),
        ("-w node[0-2] -n2", "slot=2/core"),
        ("-w node[0-2] -N2", "node=2/slot/core"),
        ("-xN4", "node=4{x}/slot/core"),
        ("-N = 4 -c=2", "node=4/slot/core=2"),
        ("-t 5 -n1 -C ssd --requires -slow", "slot/core"),
    ],
)
def test_what_options_ask_for(text: str, shape: str) -> None:
    assert as_request(text).resources == parse_shape(shape)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 5400.0), ("90s", 90.0), ("1:00:00", 3600.0), ("1-12", 129600.0), ("2h30m", 9000.0), ("0", math.inf),
     ("inf", math.inf), ("UNLIMITED", math.inf), ("0.5", 30.0)],
)  # fmt: skip
def test_a_time_limit_counts_minutes_as_in_flux_and_slurm(text: str, seconds: float) -> None:
    assert (
        as_request(f"-n1 -t {text}").duration_s
        == as_request(f"-n1 --time={text}").duration_s
        == as_request(f"-n1 --time-limit {text}").duration_s
        == seconds
    )


@pytest.mark.parametrize(
    ("text", "constraint"),
    [
        ("--requires 'ssd -slow'", And((Properties(("ssd",)), Not(Properties(("slow",)))))),
        ("--requires -slow", Not(Properties(("slow",)))),
        ("-C ssd&big", Properties(("ssd", "big"))),
        ("--constraint=ssd,big", Properties(("ssd", "big"))),
        ("-C 'a100|h100'", Or((Properties(("a100",)), Properties(("h100",))))),
        ("--nodelist=node[0-3]", Hostlist(("node[0-3]",))),
        ("-w node[0-3] -C ssd", And((Properties(("ssd",)), Hostlist(("node[0-3]",))))),
    ],
)
def test_what_nodes_must_meet(text: str, constraint: Constraint) -> None:
    assert as_request(f"-n1 {text}").constraint == constraint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("--nodes", "expected a value for -N"),
        ("--nodes=", "expected a value for -N"),
        ("-N -c2", "expected a value for -N"),
        ("-N2 --nodes 2", "-N is given twice"),
        ("--exclusive=2 -N1", "--exclusive has no value"),
        ("--node 4", "did you mean --nodes?"),
        ("-n1 --mem=8G", "memory=8GiB"),
        ("-n1 --exclude node3", "use --requires=-host"),
        ("-q5", "expected an option such as -N, -n, -c"),
        ("-n1 core", "got 'core'"),
        ("-n1 'x", "no closing quotation"),
        ("-t 5", "expected a number of nodes, tasks or cores"),
        ("-n1 -t soon", "-t: expected a duration"),
        ("-n1 -t -5", "expected a value for -t"),
        ("--exclusive", "expected a number of nodes (-N)"),
        ("--gpus-per-node 2", "expected a number of nodes (-N)"),
        ("--tasks-per-node 2 -n4", "expected a number of nodes (-N)"),
        ("-N2 --tasks-per-node 2 -n4", "either tasks in total (-n) or on each node"),
        ("-N2 -g1 --gpus-per-node 2", "either per task (-g) or per node"),
        ("--cores 4 -n2", "either cores in total (--cores) or tasks, got -n"),
        ("--cores 4 -c2", "got -c as well"),
        ("--cores 5 -N2", "such as 4 or 6"),
        ("--cores 1 -N2", "such as 2)"),
        ("--cores 5 -N2-4", "expected a fixed number of nodes with --cores"),
        ("-w node[0-1] -N3", "expected at most as many nodes as --nodelist names, 2"),
        ("-w node[0-", "-w:"),
        ("-w , -n1", "-w:"),
        ("-n1 -C [a|b]", "-C: expected names"),
        ("-n1 -C a*2", "-C: expected names"),
        ("-n1 -C host:a", "-C: expected names"),
        ("-n1 -C 'a|-b'", "-C: expected names"),
        ("-n1 -C '(a'", "query:"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(text: str, said: str) -> None:
    with pytest.raises((InputError, UsageError)) as refused:
        as_request(text)
    assert said in str(refused.value)


VALUES: Final = {
    "N": st.sampled_from(["1", "4", "2-4", "2+", "0", "x"]),
    "n": st.sampled_from(["1", "8", "0", "x"]),
    "c": st.sampled_from(["1", "4", "x"]),
    "g": st.sampled_from(["0", "2"]),
    "tasks_per_node": st.sampled_from(["1", "3"]),
    "gpus_per_node": st.sampled_from(["0", "1", "4"]),
    "cores": st.sampled_from(["1", "12"]),
    "time": st.sampled_from(["90", "1:00:00", "inf", "soon"]),
    "requires": st.sampled_from(["ssd", "-slow", "a b"]),
    "nodelist": st.sampled_from(["node0", "node[0-3]", "["]),
    "constraint": st.sampled_from(["a", "a&b", "[a]"]),
    "partition": st.sampled_from(["batch", "a,b"]),
}


@made_of(st.data())
def test_every_spelling_of_an_option_means_the_same(data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(OPTIONS), max_size=5, unique=True))
    values = {option.name: data.draw(VALUES[option.name]) for option in chosen if option.value}
    texts = []
    for number in (0, -1):
        words = []
        for option in chosen:
            spelling, value = option.spellings[number], values.get(option.name)
            glue = data.draw(st.sampled_from([" ", "="] if spelling.startswith("--") else ["", " ", "="]))
            words.append(spelling if value is None else spelling + glue + shlex.quote(value))
        texts.append(" ".join(words))
    found: list[object] = []
    for text in texts:
        try:
            request = of_options(options.words(text))
        except (InputError, UsageError) as error:
            found.append(str(error))
        else:
            assert of_options(options.words(options.text(options.words(text)))) == request
            found.append(request)
    assert found[0] == found[1]


@made_of(
    st.text()
    | st.text("-Nncgxtw= 0123456789:'\"\\[],")
    | st.lists(st.sampled_from([s for o in OPTIONS for s in o.spellings] + list("4x=,-"))).map(" ".join)
)
def test_any_text_is_a_request_or_refused(text: str) -> None:
    with suppress(InputError, UsageError):
        assert of_options(options.words("-n1 " + text)).resources
