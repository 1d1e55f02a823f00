"""Command line arguments: pools with amounts, times, tags, and requests with their options.

`/demo/rack[0-1]/node[0-3]=1` names eight pools and one unit of each.

A word that starts with `/` or reads `name:/…` is a pool, and so are a uuid and the name of an edge; any other word is a request.
A word with the extension of a jobspec is a file. Flux's short options are options here too; given as one word (`"-N4 -c8"`), they
are split first. If several jobs are named, each word is a separate request; short options, which have no position among words,
must then be words as well, after `--`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres import clock, limits
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.cli.stores import reading, store
from fluxres.documents.document import excerpt
from fluxres.errors import FluxresError, UsageError
from fluxres.render.text import when
from fluxres.syntax import moment

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph, Selection
    from fluxres.syntax.jobspec import Request

LETTERS: Final = "Nncgx"
_SHORT_WORDS: Final = re.compile(rf"-[{LETTERS}].*\s.*", re.DOTALL)
_POOL: Final = re.compile(r"/|[^\s/\[\]{}()=:;,]+:/")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(=[0-9]+)?")
_ENDINGS: Final = (".json", ".yaml", ".yml")
_AMOUNT = re.compile(r"(?P<where>.*)=(?P<amount>[0-9]+)", re.DOTALL | re.ASCII)
_WITH_UNIT = re.compile(r"[0-9][0-9.]*\s*[A-Za-z][A-Za-z/]*", re.ASCII)


class Moment(click.ParamType[float]):
    """A point in time, in seconds of wall clock time."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds of `now`, `+30m`, `3600`, `2026-12-01T08:00` or `-`."""
        return value if isinstance(value, float) else moment.parse(value, clock.system())


class Window(click.ParamType[tuple[float, float]]):
    """A window `A..B`, as seconds."""

    name = "window"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        return value if isinstance(value, tuple) else moment.parse_window(value, clock.system())


def vertices(graph: ResourceGraph, words: Iterable[str]) -> list[int]:
    """Vertex numbers of the pools that these paths name, in the order named.

    Errors: UnknownPool, InputError.
    """
    from fluxres.model.targets import vertices_named

    return [v for word in words for v in vertices_named(graph.structure, word)]


def targets(graph: ResourceGraph, words: Sequence[str], criteria: str | None = None) -> list[tuple[int, int | None]]:
    """Vertices with amounts of `PATH[=N] …`, or all that meet the criteria; None for a missing amount.

    Errors: UsageError if both or neither are given, or nothing was found.
    """
    from fluxres.model.targets import accounts_named

    if criteria is not None:
        return [(v, None) for v in found(graph, words, criteria).vertices.tolist()]
    if not words:
        raise UsageError(
            "neither pools nor a request were given",
            hint="name pools by path, such as /demo/rack0/node[0-3]=1, or give a request, such as slot=4/core=2",
        )
    named: list[tuple[int, int | None]] = []
    for word in words:
        where, amount = _amount(graph, word)
        named += [(v, amount) for v in accounts_named(graph.structure, where)]
    return named


def _amount(graph: ResourceGraph, word: str) -> tuple[str, int | None]:
    match = _AMOUNT.fullmatch(word)
    if match is None or not match["where"]:
        _refuse_unit(graph, word)
        return word, None
    if len(match["amount"]) > 20:
        raise UsageError(f"amount: expected at most {limits.SIZE_MAX} units", where=match["where"])
    return match["where"], int(match["amount"])


def _refuse_unit(graph: ResourceGraph, word: str) -> None:
    """Refuse an amount with a unit (`/demo/memory=10GiB`) for an existing pool. Errors: UsageError."""
    where, equals, amount = word.rpartition("=")
    if not equals or _WITH_UNIT.fullmatch(amount) is None:
        return
    try:
        v = vertices(graph, [where])[0]
    except FluxresError:
        return
    unit = graph.structure.kind_of(v).unit
    counted = f"the pool is counted in {unit}: give a number without a unit" if unit else "give a number without a unit"
    raise UsageError(f"amount: expected a number of units, got {excerpt(amount)}", where=where, hint=counted)


def chosen(graph: ResourceGraph, words: Sequence[str], criteria: str | None) -> list[int]:
    """Vertices of `PATH …`, or all that meet the criteria.

    Errors: as :func:`targets`.
    """
    if criteria is not None:
        selected: list[int] = found(graph, words, criteria).vertices.tolist()
        return selected
    if not words:
        raise UsageError("no pools named", hint="name pools by path, such as /demo/rack0/node[0-3], or --find CRITERIA")
    return vertices(graph, words)


def found(graph: ResourceGraph, words: Sequence[str], criteria: str) -> Selection:
    """Pools that meet the criteria; finding none is an error, because nothing would change."""
    if words:
        raise UsageError("both paths and --find were given", hint="give one of them")
    selection = graph.find(criteria)
    if not selection:
        from fluxres.model.search import unmet
        from fluxres.syntax.criteria import parse

        hint = "; ".join(unmet(graph, parse(criteria))) or "'fluxres find' lists the pools that meet criteria"
        raise UsageError("no pool meets the criteria", where=criteria, hint=hint)
    return selection


def check_window(start: float | None, end: float | None) -> None:
    """Refuse a window that never begins, or ends before it begins, with the times as typed.

    Errors: UsageError.

    >>> check_window(60.0, 30.0)
    Traceback (most recent call last):
    fluxres.errors.UsageError: the window ends at 30, which is not after its start at 60 (give a later end, or a duration)
    """
    begin = clock.system() if start is None else start
    if begin == inf:
        raise UsageError("the window never begins", hint="give a finite start: now, +30m, seconds or a date")
    if end is not None and not begin < end:
        raise UsageError(
            f"the window ends at {when(end)}, which is not after its start at {when(begin)}",
            hint="give a later end, or a duration",
        )


def key_value(text: str) -> tuple[str, str | None]:
    """Key and value of `K[=V]`.

    >>> key_value("until=May"), key_value("reserved")
    (('until', 'May'), ('reserved', None))
    """
    key, equals, value = text.partition("=")
    return key, value if equals else None


_OFFERED_MAX: Final = 500


def complete_pool(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Paths and URIs with this prefix: the children of the pool before the last slash."""

    above, slash, _ = incomplete.rpartition("/")
    try:
        graph = reading(ctx.ensure_object(Settings))
        structure = graph.structure
        if not above:
            tops = [f"/{structure.hierarchy}", *(f"{name}:/" for name in structure.subsystems)]
            return [path for path in tops if path.startswith(incomplete)]
        paths = (above + slash + structure.name(v) for v in _below(graph, above))
        return [path for path, _ in zip((p for p in paths if p.startswith(incomplete)), range(_OFFERED_MAX), strict=False)]
    except (FluxresError, OSError):
        return []


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


def complete_job(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    try:
        return [job for job in reading(ctx.ensure_object(Settings)).jobs() if job.startswith(incomplete)][:_OFFERED_MAX]
    except (FluxresError, OSError):
        return []


def complete_graph(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    try:
        return [name for name in store(ctx.ensure_object(Settings)).names() if name.startswith(incomplete)]
    except (FluxresError, OSError):
        return []


def complete_policy(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    from fluxres.match.policy import POLICIES

    return [name for name in POLICIES if name.startswith(incomplete)]


# -- requests ------------------------------------------------------------------------------------------------------------

_OPTIONS: Final = (
    click.Option(["-N", "nodes"], metavar="NODES", help="Nodes, such as 4, 2-4 or 2+."),
    click.Option(["-n", "tasks"], metavar="TASKS", help="Tasks, each in its own slot. Default: one per node."),
    click.Option(["-c", "cores"], metavar="CORES", help="Cores per task. Default: 1."),
    click.Option(["-g", "gpus"], metavar="GPUS", help="GPUs per task. Default: 0."),
    click.Option(["-x", "exclusive"], is_flag=True, help="Allocate nodes exclusively."),
)


_LANGUAGE: Final = click.Option(
    ["--request-format", "language"],
    type=click.Choice(["hyperqueue", "canary", "ctest"]),
    help="The request, a single word, is in the language of this system.",
)


_REQUIRES: Final = click.Option(
    ["--requires"], metavar="QUERY", help="Only nodes that meet this query, such as 'ssd -host:node[0-7]'."
)


def _policy_option(default: str) -> click.Option:
    others = ", ".join(name for name in ("first", "low", "high", "pack", "spread", "locality") if name != default)
    text = f"Pools to prefer: {default} (default), {others}, …"
    return click.Option(["-M", "--match-policy", "policy"], metavar="P", shell_complete=complete_policy, help=text)


class Asked:
    """The words and options of a command: pools by name, or one request.

    Args:
        words: as typed.
        letters: the values of -N, -n, -c, -g and -x that were given.
        policy: the name given.
        default: the policy if none was given.
        language: the other system whose language the word is in.
        requires: a query (RFC 35) that the nodes of the request must meet.

    Errors: UsageError for pools together with a request, two requests, and a policy or query for pools; InputError for an invalid
    request or query.
    """

    def __init__(
        self,
        words: Sequence[str],
        letters: Mapping[str, str | bool] = MappingProxyType({}),
        policy: str | None = None,
        default: str = "first",
        language: str | None = None,
        requires: str | None = None,
    ) -> None:
        if language is not None and (letters or len(words) != 1):
            message = f"--request-format needs a single word, got {len(words)} words and {len(letters)} short options"
            raise UsageError(message, hint=f"quote the request of {language}; put it after -- if it begins with -")
        self.pools = [word for word in words if names_pool(word)] if language is None else []
        texts = [word for word in words if word not in self.pools]
        if len(texts) + len(self.pools) + bool(letters) > 1:
            self._require_one_kind(texts, letters)
        self.request: Request | None = None
        if letters:
            from fluxres.syntax import jobspec, options

            self.request = jobspec.Request(options.of_letters(letters))
        elif texts:
            self.request = _read(texts[0], language)
        if self.request is None and (policy is not None or requires is not None):
            option = "--match-policy" if policy is not None else "--requires"
            raise UsageError(f"{option} needs a request", hint="leave it out for named pools")
        if self.request is not None and requires is not None:
            self.request = _constrained(self.request, requires)
        self.policy = default if policy is None else policy

    def _require_one_kind(self, texts: list[str], letters: Mapping[str, str | bool]) -> None:
        if letters:
            texts = [
                *texts,
                " ".join(f"-{letter}" if value is True else f"-{letter} {value}" for letter, value in letters.items()),
            ]
        if len(texts) > 1:
            raise UsageError(
                f"more than one request: {texts[0]!r:.80} and {texts[1]!r:.80}",
                hint="join shapes of one job as [A;B]; for several jobs, give 'allocate' one --job for each",
            )
        if texts and self.pools:
            raise UsageError(
                f"both pools and a request were given: {self.pools[0]!r:.80} and {texts[0]!r:.80}",
                hint="a pool starts with '/' or reads 'name:/path', anything else is a request; give one of the two",
            )

    def needed(self) -> Request:
        """The request of a command that accepts nothing else.

        Errors: UsageError if there is none.
        """
        if self.pools:
            raise UsageError("expected a request, got a pool", where=self.pools[0], hint=_HINT)
        if self.request is None:
            raise UsageError("no request was given", hint=_HINT)
        return self.request


_HINT: Final = "such as slot=4/[core=2;gpu=1], -N4 -c8, or a jobspec in a file"


def names_pool(word: str) -> bool:
    """Whether a word names pools rather than a request.

    >>> [names_pool(word) for word in ("/demo/rack0=2", "power:/pdu[0-1]", "slot=4/core=2", "node", "-")]
    [True, True, False, False, False]
    >>> names_pool("power: power:/pdu0 -> /demo/rack0=100")
    True
    """
    from fluxres.graph.accounts import is_edge

    if word.endswith(_ENDINGS) and Path(word).is_file():
        return False
    return _POOL.match(word) is not None or is_edge(word) or _UUID.fullmatch(word) is not None


def _constrained(request: Request, query: str) -> Request:
    """The request, on nodes that meet its own constraint and a query."""
    from fluxres.syntax.constraint import And
    from fluxres.syntax.constraint_query import constraint_of

    asked = constraint_of(query)
    return replace(request, constraint=asked if request.constraint is None else And((request.constraint, asked)))


def _read(word: str, language: str | None) -> Request:
    from fluxres.cli.output import note
    from fluxres.syntax.jobspec import Request

    found = Request.parse(Path(word) if word.endswith(_ENDINGS) and language is None else word, format=language)
    for slot in found.stray_slots:
        note(f"a task refers to the slot {slot!r:.80}, which is not among the resources")
    if language is not None:
        for left in found.attributes["user"]["asked"]["left_out"]:
            note(f"left out: {left}")
    return found


def each(
    words: Sequence[str],
    letters: Mapping[str, str | bool],
    policy: str | None,
    jobs: Sequence[str],
    language: str | None = None,
    requires: str | None = None,
) -> list[Asked]:
    """The requests of several jobs, one word each, in their order.

    Errors: UsageError if jobs and words do not correspond; as Asked, with the word.
    """
    if letters:
        message = "options such as -N apply to one job, but several were named"
        raise UsageError(message, hint="write each request as one word after --, such as -- '-N4 -c8' '-n2'")
    if len(words) != len(jobs):
        number = f"{len(words)} request{'s' * (len(words) != 1)} and {len(jobs)} jobs"
        raise UsageError(f"{number} were given", hint="name one job for each request, in their order, or one job for all pools")
    if language is not None:
        return [Asked([word], policy=policy, language=language, requires=requires) for word in words]
    if all(map(names_pool, words)):
        return [Asked([word], policy=policy, requires=requires) for word in words]
    return [Asked([word]) if names_pool(word) else Asked([word], policy=policy, requires=requires) for word in words]


class RequestCommand(Command):
    """A command with the arguments and options of a request; its function gets `asked` for its `words`.

    If it has `jobs` and several are named, `asked` is a list with the request of each.

    Args:
        policy: the default.
    """

    def __init__(self, *args: Any, policy: str = "first", **settings: Any) -> None:
        super().__init__(*args, **settings)
        arguments = sum(isinstance(param, click.Argument) for param in self.params)
        self.params[arguments:arguments] = [*_OPTIONS, _REQUIRES, _LANGUAGE, _policy_option(policy)]
        self.policy = policy

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, after splitting short options that came as one word."""
        options = args.index("--") if "--" in args else len(args)
        apart = [part for word in args[:options] for part in (word.split() if _SHORT_WORDS.fullmatch(word) else [word])]
        return super().parse_args(ctx, apart + args[options:])

    def invoke(self, ctx: click.Context) -> Any:
        """Run it with the request of its words and options."""
        given = ctx.params
        short = [given.pop(str(option.name)) for option in _OPTIONS]
        letters = {
            letter: value.strip().removeprefix("=").strip() if isinstance(value, str) else value  # -N=4 is -N 4
            for letter, value in zip(LETTERS, short, strict=True)
            if value
        }
        words, policy = given.pop("words"), given.pop("policy")
        language, requires = given.pop("language"), given.pop("requires")
        jobs = given.get("jobs", ())
        if len(jobs) > 1:
            given["asked"] = each(words, letters, policy, jobs, language, requires)
        else:
            given["asked"] = Asked(words, letters, policy, self.policy, language, requires)
        return super().invoke(ctx)


def endless(end: float | None, duration_s: float | None) -> tuple[float | None, float | None]:
    """End and duration, with `--end -` converted to an infinite duration: it overrides the duration of a request, which a missing
    end would not.

    >>> endless(float("inf"), None), endless(5.0, None)
    ((None, inf), (5.0, None))
    """
    return (None, inf) if end == inf and duration_s is None else (end, duration_s)
