"""Requests as options: `-N2 -n8 -c4 -g1 -x`, `--nodes=4 --time 1:00:00` → what Flux's own commands ask for with them.

They mean what they mean to `flux run`: n tasks in n slots of c cores and g gpus; with nodes, each node has as many
slots as the tasks need when they are distributed evenly, rounded up. Slurm's names for the same things are accepted as well.
Sources: flux-run(1), flux-alloc(1), sbatch(1).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import msgspec

from fluxres import limits
from fluxres.documents.document import excerpt, shown
from fluxres.documents.suggestion import suggest
from fluxres.errors import InputError, LimitExceeded, UsageError
from fluxres.syntax import count as counts
from fluxres.syntax.shape import DEFAULT_LABEL
from fluxres.syntax.vertex import SLOT, Vertex

if TYPE_CHECKING:
    from fluxres.syntax.constraint import Constraint

Given = Mapping[str, str | bool]
"""Options by the name of an `Option`, with values as typed; True for a flag."""


class Option(msgspec.Struct, frozen=True):
    """An option: its name in `Given`, its spellings, the placeholder of its value (empty for a flag), and its help."""

    name: str
    spellings: tuple[str, ...]
    value: str
    help: str


SIZES: Final = (
    Option("N", ("-N", "--nodes"), "NODES", "nodes, such as 4, 2-4 or 2+."),
    Option("n", ("-n", "--ntasks"), "TASKS", "tasks, each in its own slot. Default: one per node."),
    Option("c", ("-c", "--cores-per-task", "--cpus-per-task"), "CORES", "cores per task. Default: 1."),
    Option("g", ("-g", "--gpus-per-task"), "GPUS", "GPUs per task. Default: 0."),
    Option("x", ("-x", "--exclusive"), "", "allocate nodes exclusively."),
    Option("tasks_per_node", ("--tasks-per-node", "--ntasks-per-node"), "TASKS", "tasks on each node, instead of -n."),
    Option("gpus_per_node", ("--gpus-per-node",), "GPUS", "GPUs on each node, instead of -g."),
    Option("cores", ("--cores",), "CORES", "cores in total, divided evenly among nodes if -N is given."),
)
"""Options that say how much is asked for."""
CONDITIONS: Final = (
    Option("partition", ("-p", "--partition", "--queue"), "NAME", "the partition it goes to. Default: that of the machine."),
    Option("time", ("-t", "--time", "--time-limit"), "D", "duration, such as 90m, 1:00:00 or 1-12. A number alone is minutes."),
    Option("requires", ("--requires",), "QUERY", "only nodes that meet this query, such as 'ssd -host:node[0-7]'."),
    Option("nodelist", ("-w", "--nodelist"), "HOSTS", "only these nodes; all of them if no number is given."),
    Option("constraint", ("-C", "--constraint"), "LIST", "only nodes with these properties: 'a&b', 'a|b', 'a,b'."),
)
"""Options that say when and where, of any request."""
OPTIONS: Final = (*SIZES, *CONDITIONS)
_BY_SPELLING: Final = {spelling: option for option in OPTIONS for spelling in option.spellings}

_ELSEWHERE: Final = {
    **dict.fromkeys(("--mem", "--mem-per-cpu"), "request memory in a shape, such as slot=4/[core=2;memory=8GiB]"),
    **dict.fromkeys(("--gres", "--gpus", "-G"), "use --gpus-per-task or --gpus-per-node, or a shape such as slot/[core=2;gpu=1]"),
    **dict.fromkeys(
        ("--resource", "--resources"),
        "use --resources 'gpus=1 cpus=8' with run and shell, --request-format hyperqueue 'gpus=1 cpus=8' with others",
    ),
    "--cpus": "use --cores-per-task or --cores",
    "--exclude": "use --requires=-host:node[0-3]",
    **dict.fromkeys(("--begin", "--begin-time", "-b"), "use --start"),
    **dict.fromkeys(("--job-name", "-J"), "use --job for the id of the job, --name for a name in lists"),
}
"""Options of Slurm and Flux that have no equal here, and how to say it instead."""


def spelling(given: Given) -> str:
    """How one of the options is written, for a message."""
    return next((option.spellings[0] for option in OPTIONS if option.name in given), "")


def text(given: Given) -> str:
    """Options as :func:`words` reads them.

    >>> text({"N": "4", "x": True, "requires": "ssd -slow"})
    "-N 4 -x --requires 'ssd -slow'"
    """
    said = [(option, given[option.name]) for option in OPTIONS if option.name in given]
    return " ".join(
        option.spellings[0] if value is True else f"{option.spellings[0]} {shlex.quote(str(value))}" for option, value in said
    )


def starts(text: str) -> bool:
    """Whether a text begins with an option of a request.

    >>> starts("--nodes=4 -c8"), starts("-new ssd")
    (True, False)
    """
    first = text.split(maxsplit=1)[0].partition("=")[0]
    return first in _BY_SPELLING or (first[:2] in _BY_SPELLING and not first[1:].isalpha())


def instead(option: str) -> str:
    """How to say what an unknown option says, or the nearest option; empty if there is neither.

    >>> instead("--node"), instead("--exclude")
    ('did you mean --nodes?', 'use --requires=-host:node[0-3]')
    """
    if option in _ELSEWHERE:
        return _ELSEWHERE[option]
    return suggest(option, _BY_SPELLING, cutoff=0.75) if option.startswith("--") else ""


def parse_options(
    N: int | str | None = None,  # noqa: N803 - the letters are the options
    n: int | None = None,
    c: int | None = None,
    g: int | None = None,
    x: bool = False,
    *,
    tasks_per_node: int | None = None,
    gpus_per_node: int | None = None,
    cores: int | None = None,
) -> tuple[Vertex, ...]:
    """The resources of options.

    Args:
        N: nodes; also a count such as `2-4` or `2+`, with one task on each.
        n: tasks, each in a slot of its own; one per node, or one, when not given.
        c: cores per task; 1 when not given.
        g: gpus per task.
        x: allocate the nodes exclusively; needs N.
        tasks_per_node: instead of n; needs N.
        gpus_per_node: instead of g; needs N. If a node has several tasks, these GPUs are theirs together.
        cores: in total, instead of tasks and what each of them needs: slots of one core, or a slot on each node.

    Errors: InputError naming the option; UsageError for options that do not go together.

    >>> (node,) = parse_options(N=2, n=8, c=4)
    >>> [(vertex.type, vertex.count.min) for vertex in (node, *node.children, *node.children[0].children)]
    [('node', 2), ('slot', 4), ('core', 4)]
    """
    tasks = None if n is None else _number("-n", n, 1)
    each = None if tasks_per_node is None else _number("--tasks-per-node", tasks_per_node, 1)
    nodes = None if N is None else _nodes(N)
    for needs, is_given in (("-x", x), ("--tasks-per-node", each is not None), ("--gpus-per-node", gpus_per_node is not None)):
        if is_given and nodes is None:
            what = {"-x": "exclusive nodes (-x)"}.get(needs, needs)
            raise UsageError(f"expected a number of nodes (-N) with {what}", where=needs)
    if cores is not None:
        for name, value in (("-n", n), ("-c", c), ("-g", g), ("--tasks-per-node", each)):
            if value is not None:
                raise UsageError(
                    f"expected either cores in total (--cores) or tasks, got {name} as well",
                    where="--cores",
                    hint="with tasks, give the cores of each: -n 4 -c 8",
                )
        inside, tasks = _divided(_number("--cores", cores, 1), nodes)
    else:
        inside = [_cores("-c", 1 if c is None else c)]
        if g is not None and _number("-g", g, 0):
            inside.append(Vertex("gpu", counts.exactly(g), is_exclusive=True))
    if nodes is None:
        return (_slot(tasks or 1, inside),)
    per_node = 1 if cores is not None else _tasks_per_node(nodes, tasks, each)
    beside = _on_each_node(gpus_per_node, g, per_node, inside)
    children = (_slot(per_node, inside), *beside)
    return (Vertex("node", nodes, exclusive=x or None, children=children, is_exclusive=x),)


def _nodes(given: int | str) -> counts.Count:
    try:
        return counts.parse(given)
    except InputError as error:
        if isinstance(error, LimitExceeded) or error.message.startswith("expected max"):
            raise type(error)(error.message, where="-N", hint=error.hint) from None
        raise InputError(f"expected at least 1 node, got {shown(given)}", where="-N", hint="such as 4, 2-4 or 2+") from None


def _tasks_per_node(nodes: counts.Count, tasks: int | None, each: int | None) -> int:
    if tasks is None:
        return each or 1
    if each is not None:
        raise UsageError("expected either tasks in total (-n) or on each node (--tasks-per-node), got both", where="-n")
    if nodes.fixed is None:
        raise UsageError(f"expected a fixed number of nodes with tasks (-n), got {nodes}", where="-N")
    if tasks < nodes.fixed:
        raise UsageError(f"expected at least one task per node, got {tasks} on {nodes}", where="-n")
    return -(-tasks // nodes.fixed)


def _divided(cores: int, nodes: counts.Count | None) -> tuple[list[Vertex], int]:
    """What is in a slot, and the number of slots, for cores in total."""
    if nodes is None:
        return [_cores("--cores", 1)], cores
    if nodes.fixed is None:
        raise UsageError(f"expected a fixed number of nodes with --cores, got {nodes}", where="-N")
    if cores % nodes.fixed:
        below = cores - cores % nodes.fixed
        near = " or ".join(str(number) for number in (below, below + nodes.fixed) if number)
        raise UsageError(f"expected cores that {nodes} nodes share evenly, got {cores}", where="--cores", hint=f"such as {near}")
    return [_cores("--cores", cores // nodes.fixed)], 1


def _on_each_node(gpus: int | None, per_task: int | None, per_node: int, inside: list[Vertex]) -> tuple[Vertex, ...]:
    """GPUs of a node: in its only slot, which gets them, or beside its slots."""
    if gpus is None or not _number("--gpus-per-node", gpus, 0):
        return ()
    if per_task is not None:
        raise UsageError("expected GPUs either per task (-g) or per node (--gpus-per-node), got both", where="-g")
    if per_node == 1:
        inside.append(Vertex("gpu", counts.exactly(gpus), is_exclusive=True))
        return ()
    return (Vertex("gpu", counts.exactly(gpus), exclusive=True, is_exclusive=True),)


def words(text: str) -> Given:
    """Options as one text, such as ``-N4 -c 8 -x`` or ``--nodes=4 --requires 'ssd -slow'``.

    Errors: InputError for a word that is no such option, or an option that is given twice.

    >>> words("-n3 --gpus-per-task 1") == words("--ntasks=3 -g1") == {"n": "3", "g": "1"}
    True
    """
    given: dict[str, str | bool] = {}
    left = split(text)
    while left:
        word = left.pop(0)
        option, value = _option(word)
        if option.name in given:
            raise InputError(f"{option.spellings[0]} is given twice", where="options")
        if not option.value:
            if value is not None and word.startswith("--"):
                raise InputError(f"{option.spellings[1]} has no value, got {excerpt(word)}", where="options")
            given[option.name] = True
            left = [f"-{value}", *left] if value else left  # -xN4
            continue
        if value is None and left:
            value = left.pop(0)
            if value == "=" and left:  # -N = 4
                value = left.pop(0)
        if not value or (value.startswith("-") and option.name != "requires"):
            raise InputError(f"expected a value for {option.spellings[0]}", where="options")
        given[option.name] = value
    return given


def split(text: str) -> list[str]:
    """The words of options as one text, as a shell splits them. Errors: InputError."""
    if len(text) > limits.REQUEST_TEXT_MAX:
        raise LimitExceeded(f"expected at most {limits.REQUEST_TEXT_MAX} characters, got {len(text)}", where="options")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise InputError(f"{str(error).lower()} in {excerpt(text)}", where="options") from None


def _option(word: str) -> tuple[Option, str | None]:
    if word.startswith("--"):
        named, equals, value = word.partition("=")
    else:
        named, equals, value = word[:2], word[2:], word[2:].removeprefix("=")
    option = _BY_SPELLING.get(named)
    if option is None:
        letters = ", ".join(option.spellings[0] for option in OPTIONS if len(option.spellings[0]) == 2)
        hint = instead(named) or "the names are those of flux run, and Slurm's"
        raise InputError(f"expected an option such as {letters} or --nodes, got {excerpt(word)}", where="options", hint=hint)
    return option, value if equals else None


def resources(given: Given) -> tuple[Vertex, ...] | None:
    """The resources of options with values as typed; None if none says how much. Errors: those of :func:`parse_options`, and
    UsageError for more nodes than those that are named.
    """
    read: dict[str, object] = {option.name: given[option.name] for option in SIZES if option.name in given}
    for name, value in read.items():
        if isinstance(value, str) and _is_number(value):
            read[name] = int(value)
    if "nodelist" not in given:
        return parse_options(**read) if read else None  # type: ignore[arg-type]  # it checks what was typed
    hosts = _host_count(str(given["nodelist"]))
    if not read.keys() & {"N", "n", "cores"}:
        read["N"] = hosts
    made = parse_options(**read)  # type: ignore[arg-type]  # as above
    if "N" in read and made[0].count.min > hosts:
        raise UsageError(f"expected at most as many nodes as --nodelist names, {hosts}, got {made[0].count}", where="-N")
    return made


def _is_number(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) < 20


def constraint(given: Given) -> Constraint | None:
    """What the nodes must meet by `--requires`, `--nodelist` and `--constraint`, all of it. Errors: InputError."""
    if given.keys().isdisjoint(("requires", "constraint", "nodelist")):
        return None
    from fluxres.syntax.constraint import And, Hostlist
    from fluxres.syntax.constraint_query import constraint_of

    found: list[Constraint] = []
    if "requires" in given:
        found.append(constraint_of(str(given["requires"])))
    if "constraint" in given:
        found.append(constraint_of(_features(str(given["constraint"]))))
    if "nodelist" in given:
        _host_count(str(given["nodelist"]))
        found.append(Hostlist((str(given["nodelist"]),)))
    return found[0] if len(found) == 1 else And(tuple(found))


def partition(given: Given) -> str | None:
    """The partition of `--partition`. Errors: InputError for several, of which Slurm takes the first that starts."""
    if "partition" not in given:
        return None
    name = str(given["partition"])
    if not name or "," in name:
        raise InputError(
            f"expected the name of one partition, got {excerpt(name)}", where="-p", hint="ask about one after the other"
        )
    return name


def duration_s(given: Given) -> float | None:
    """Seconds of `--time`, infinity for no end; 0 is no end as well, as in Flux and Slurm. Errors: InputError."""
    if "time" not in given:
        return None
    from fluxres.syntax import duration

    try:
        return duration.read(str(given["time"]), bare_s=60.0) or float("inf")
    except InputError as error:
        hint = "such as 90m, 2h30m, 1:00:00 (hours:minutes:seconds), 1-12 (days-hours), 90 (minutes), or inf for no end"
        raise type(error)(error.message, where="-t", hint=hint) from None


_NO_FEATURE: Final = re.compile(r"[\[\]*:]|(?:^|[\s(&|,])-")


def _features(text: str) -> str:
    """Slurm's `--constraint`, as a query: names with & | , and parentheses."""
    if _NO_FEATURE.search(text):
        raise InputError(
            f"expected names with & | , and parentheses, got {excerpt(text)}",
            where="-C",
            hint="Slurm's counts and brackets have no equal; --requires can negate and name hosts: 'a -b host:node[0-3]'",
        )
    return text


def _host_count(text: str) -> int:
    from fluxres.syntax import hostlist

    try:
        hosts = len(set(hostlist.parse(text)))
    except InputError as error:
        raise type(error)(error.message, where="-w", hint=error.hint or "such as node[0-3],node8") from None
    if not hosts:
        raise InputError("expected names of nodes", where="-w", hint="such as node[0-3],node8")
    return hosts


def _number(option: str, value: object, least: int) -> int:
    is_long = isinstance(value, str) and value.isascii() and value.isdecimal()  # longer than the numbers that are read
    if not is_long and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise InputError(f"expected a whole number of at least {least}, got {shown(value)}", where=option)
    if not isinstance(value, int) or value > limits.COUNT_MAX:
        raise LimitExceeded(f"expected a whole number of at most {limits.COUNT_MAX}, got {shown(value)}", where=option)
    return value


def _cores(option: str, number: object) -> Vertex:
    return Vertex("core", counts.exactly(_number(option, number, 1)), is_exclusive=True)


def _slot(number: int, inside: list[Vertex]) -> Vertex:
    return Vertex(SLOT, counts.exactly(number), label=DEFAULT_LABEL, children=tuple(inside), is_exclusive=True)
