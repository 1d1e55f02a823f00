"""What completion offers for the arguments of commands.

A completer never fails: without a store or with a damaged one, it offers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres.cli.settings import Settings
from fluxres.errors import FluxresError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from fluxres.model import ResourceGraph

Completer = Callable[[click.Context, click.Parameter, str], "list[str | CompletionItem[Any]]"]
_OFFERED_MAX: Final = 500


def file(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[Any]]:
    """File names, completed by the shell itself."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def or_file(*first: Callable[[click.Context, click.Parameter, str], Any]) -> Completer:
    """What the completers offer, or file names if that is nothing or nothing was typed yet."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        found = [item for each in first for item in each(ctx, param, incomplete)] if incomplete else []
        return found or file(ctx, param, incomplete)

    return complete


def one_of(words: Callable[[], Iterable[str]]) -> Completer:
    """Words of a table, which is imported when it is needed."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> Any:
        return [word for word in words() if word.startswith(incomplete)]

    return complete


def _graph(ctx: click.Context) -> ResourceGraph | None:
    from fluxres.cli.stores import reading

    try:
        return reading(ctx.find_object(Settings) or Settings())
    except (FluxresError, OSError):
        return None


def _of_graph(words: Callable[[ResourceGraph, str], Iterable[str]]) -> Completer:
    """Words of the graph, made from what was typed."""

    def complete(ctx: click.Context, _param: click.Parameter, incomplete: str) -> Any:
        graph = _graph(ctx)
        if graph is not None:
            with suppress(FluxresError):
                return list(islice((word for word in words(graph, incomplete) if word.startswith(incomplete)), _OFFERED_MAX))
        return []

    return complete


def _states() -> Iterable[str]:
    from fluxres.graph.kinds import STATES

    return STATES


def _formats(*, writing: bool) -> Iterable[str]:
    from fluxres.formats import registry

    return [known.name for known in registry.formats() if (known.writer if writing else known.reader) is not None]


def _match_policies() -> Iterable[str]:
    from fluxres.match.policy import POLICIES

    return POLICIES


def _queue_policies() -> Iterable[str]:
    from fluxres.instance.policy import names

    return names()


def _balances() -> Iterable[str]:
    from fluxres.simulation.nesting.balance import NAMES

    return NAMES


def _elastics() -> Iterable[str]:
    from fluxres.simulation.nesting.elastic import NAMES

    return NAMES


def _size_policies() -> Iterable[str]:
    from fluxres.instance.sizes import NAMES

    return NAMES


def _resize_policies() -> Iterable[str]:
    from fluxres.simulation.adaptive.malleable import POLICIES

    return POLICIES


def _costs() -> Iterable[str]:
    from fluxres.simulation.costs.models import MODELS

    return ["none", "measured", "measured:calibrate", *(model.name for model in MODELS)]


def _predictors() -> Iterable[str]:
    from fluxres.simulation.prediction.prediction import PREDICTORS

    return PREDICTORS.names()


def _correctors() -> Iterable[str]:
    from fluxres.simulation.prediction.prediction import CORRECTORS

    return CORRECTORS.names()


def _estimates() -> Iterable[str]:
    from fluxres.simulation.workload.estimates import ESTIMATES

    return ESTIMATES.names()


def _feedbacks() -> Iterable[str]:
    from fluxres.simulation.workload.feedback import KINDS

    return KINDS


def _workload_formats() -> Iterable[str]:
    from fluxres.simulation.workload.trace import FORMATS

    return FORMATS


def _topics() -> Iterable[str]:
    from fluxres.cli.program import COMMANDS
    from fluxres.cli.topics import TOPICS

    return [*COMMANDS, *TOPICS]


state = one_of(_states)
format_read = one_of(lambda: _formats(writing=False))
format_any = one_of(lambda: {*_formats(writing=False), *_formats(writing=True)})
format_written = one_of(lambda: _formats(writing=True))
match_policy = one_of(_match_policies)
queue_policy = one_of(_queue_policies)
balance = one_of(_balances)
cost = one_of(_costs)
elastic = one_of(_elastics)
size_policy = one_of(_size_policies)
resize_policy = one_of(_resize_policies)
predictor = one_of(_predictors)
corrector = one_of(_correctors)
estimates = one_of(_estimates)
feedback = one_of(_feedbacks)
workload_format = one_of(_workload_formats)
topic = one_of(_topics)
job = _of_graph(lambda graph, _: graph.jobs())
subsystem = _of_graph(lambda graph, _: graph.subsystems)
stage = _of_graph(lambda graph, _: graph.records.stages)
partition = _of_graph(lambda graph, _: graph.partitions)
reservation = _of_graph(lambda graph, _: graph.records.reservations)
user = _of_graph(lambda graph, _: sorted({facts.user for facts in graph.records.facts.values() if facts.user}))
machine = or_file(one_of(lambda: ("this-machine", "hwloc:")))


def graph(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from fluxres.cli.stores import store

    try:
        return [name for name in store(ctx.find_object(Settings) or Settings()).names() if name.startswith(incomplete)]
    except (FluxresError, OSError):
        return []


# -- pools ---------------------------------------------------------------------------------------------------------------


def _pools(graph: ResourceGraph, incomplete: str) -> Iterator[str]:
    """Children of the pool before the last slash, pools of a graph, hosts."""
    structure = graph.structure
    above, slash, _ = incomplete.rpartition("/")
    name, colon, _ = incomplete.partition(":")
    before, separator, _ = incomplete.rpartition("@") if "@" in incomplete else incomplete.rpartition(",")
    if above:
        yield from (above + slash + structure.name(v) for v in _below(graph, above))
    elif colon and not slash and name in structure.subsystems:
        yield from (f"{name}:{structure.name(v)}" for v in _below(graph, f"{name}:"))
    else:
        if not separator:
            graphs = structure.subsystems.values()
            yield from [f"/{structure.hierarchy}", *(f"{graph.name}:{'/' * graph.hierarchy}" for graph in graphs)]
        if incomplete.count("[") == incomplete.count("]"):
            yield from (before + separator + host for host in dict.fromkeys(structure.short_names.offered()))


def _below(graph: ResourceGraph, above: str) -> list[int]:
    """The children of a path or URI, or the roots of ``power:``."""
    from fluxres.model import targets

    structure, name = graph.structure, above.removesuffix(":")
    if name != above and name in structure.subsystems and not structure.subsystems[name].hierarchy:
        return structure.lookup.outside(name)
    place = targets.place(graph, above + "/" * (name != above))
    if place.above_roots:
        return place.vertices
    forest = structure.forest() if place.subsystem is not None else place.require_forest()
    found: list[int] = forest.children(place.vertices[0]).tolist()
    return found


pool = _of_graph(_pools)


# -- criteria ------------------------------------------------------------------------------------------------------------

_LAST: Final = re.compile(r"(?P<key>[a-z]+)(?P<operator>!=|<=|>=|==?|[<>~])(?P<value>[^\s()]*)$")
_WORD: Final = re.compile(r"(?P<word>[a-z]*)$")


def criteria(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Keys with operators, values of the graph, and `and`, `or`: continuations of what was typed."""
    compared = _LAST.search(incomplete)
    if compared is not None:
        before, value = incomplete[: compared.start("value")], compared["value"]
        done, comma, last = value.rpartition(",")
        return [f"{before}{done}{comma}{word}" for word in _values(ctx, compared["key"]) if word.startswith(last)][:_OFFERED_MAX]
    word = _WORD.search(incomplete)
    before = incomplete if word is None else incomplete[: word.start()]
    typed = "" if word is None else word["word"]
    joins = re.search(r"[^\s(]\s+$", before) is not None and re.search(r"\b(and|or|not)\s+$", before) is None
    return [before + each for each in (("and ", "or ") if joins else _keys()) if each.startswith(typed)]


def _keys() -> Iterable[str]:
    from fluxres.syntax.criteria import KEYS

    for name, key in KEYS.items():
        yield from [name] * key.alone
        yield from (name + operator for operator in key.operators)


def _values(ctx: click.Context, key: str) -> Iterable[str]:
    if key in ("state", "status"):
        return _states()
    found = _graph(ctx)
    if found is None:
        return ()
    structure = found.structure
    match key:
        case "type":
            return structure.types
        case "subsystem":
            return structure.subsystems
        case "hierarchy":
            return [structure.hierarchy, *(name for name, each in structure.subsystems.items() if each.hierarchy)]
        case "job" | "shared":
            return found.jobs()
        case "property":
            return sorted({name for kind in structure.kinds for name, _ in kind.properties})
        case "tag":
            return sorted({name for tags in structure.tags.values() for name in tags})
    return ()
