"""Command line arguments: pools with amounts, times, tags, and requests with their options.

`/demo/rack[0-1]/node[0-3]=1` names eight pools and one unit of each.

A word is a pool if it is a path, a URI, a uuid or an edge, contains `@` or a hostlist in brackets, or is the name of a pool (or a
list with one) and not a type; any other word is a request.  Some words are settled only when the graph is open.
A word with the extension of a jobspec is a file. The options of `flux run` are options here too; given as one word (`"-N4 -c8"`),
they are split first. If several jobs are named, each word is a separate request; options, which have no position among words,
must then be words as well, after `--`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres import clock, limits
from fluxres.cli import completing
from fluxres.cli.program import Command
from fluxres.cli.settings import Settings
from fluxres.cli.words import OLD_OPTIONS
from fluxres.documents.document import plural
from fluxres.errors import ErrorPlace, FluxresError, UsageError
from fluxres.render.text import when
from fluxres.syntax import moment, options, unit

if TYPE_CHECKING:
    from fluxres.graph.accounts import Accounts
    from fluxres.model import ResourceGraph, Selection
    from fluxres.syntax.jobspec import Request

_OPTION_WORDS: Final = re.compile(r"-.*\s.*", re.DOTALL)
_POOL: Final = re.compile(r"/|[^\s/\[\]{}()=:;,]+:/|[^\s/{}=;]+@/")
_MAY_BE_POOL: Final = re.compile(r"([^\s/\[\]{}()=:;,]+:[^{}=;]+|[^\s/{}=;-][^\s/{}=;]*)(=[0-9][0-9.]*\s*[A-Za-z/]*)?")
_ENDS: Final = ("--end", "--until")
"""The options of which `-` is a value."""
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(=[0-9]+)?")
_ENDINGS: Final = (".json", ".yaml", ".yml")
_AMOUNT = re.compile(r"(?P<where>.*)=(?P<amount>[0-9]+)", re.DOTALL | re.ASCII)
_WITH_UNIT = re.compile(r"(?P<where>.*[^=])=(?P<size>[0-9.]+\s*[A-Za-z][A-Za-z/]*)", re.DOTALL | re.ASCII)


class Moment(click.ParamType[float]):
    """A point in time, in seconds of wall clock time.

    Args:
        is_start: something begins then: a date in the past is noted.
        after: the option with the start of a window that this one ends: its `08:00` is the first one after the start.
    """

    name = "time"

    def __init__(self, *, is_start: bool = False, after: str | None = None) -> None:
        self.is_start = is_start
        self.after = after

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds of `now`, `+30m`, `3600`, `2026-12-01T08:00`, `tomorrow 08:00` or `-`."""
        if isinstance(value, float):
            return value
        now = _now(ctx)
        try:
            found = self._resolved(moment.read(value), now, ctx)
        except FluxresError as error:
            if param is not None:
                error.where, error.message = param.opts[0], error.message.removeprefix("time: ")
                if error.where not in _ENDS and error.hint:
                    error.hint = moment.BEGIN_HINT
            raise
        if self.is_start and moment.EPOCH_FROM_S < found < now:
            from fluxres.cli.output import note

            note(f"the start, {when(found)}, is in the past")
        return found

    def _resolved(self, asked: moment.Moment, now: float, ctx: click.Context | None) -> float:
        start = ctx.params.get(self.after) if ctx is not None and self.after is not None and asked.is_next else None
        # While click parses, an option that is not given has a value of its own.
        return asked.resolve(start if isinstance(start, float) and start < inf else now)


def _now(ctx: click.Context | None) -> float:
    return clock.system() if ctx is None else ctx.ensure_object(Settings).now()


class Window(click.ParamType[tuple[float, float]]):
    """A window `A..B`, as seconds."""

    name = "window"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        return value if isinstance(value, tuple) else moment.parse_window(value, _now(ctx))


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
            hint="name pools, such as node[0-3] or /demo/rack0/node0=1, or give a request, such as slot=4/core=2",
        )
    accounts = graph.structure.accounts
    wanted: list[tuple[int, int | None]] = []
    for word in words:
        match = _WITH_UNIT.fullmatch(word)
        if match is not None and unit.is_size(match["size"]):
            wanted += [(v, _in_units_of(accounts, v, match["size"])) for v in accounts_named(graph.structure, match["where"])]
            continue
        where, amount = _amount(graph, word)
        wanted += [(v, amount) for v in accounts_named(graph.structure, where)]
    return wanted


def named(graph: ResourceGraph, wanted: Iterable[tuple[int, int | None]]) -> dict[str, int | None]:
    """Vertices with amounts, as `targets` finds them, by path."""
    return {graph.structure.accounts.where(v): amount for v, amount in wanted}


def _amount(graph: ResourceGraph, word: str) -> tuple[str, int | None]:
    match = _AMOUNT.fullmatch(word)
    if match is None or not match["where"]:
        return word, None
    if _is_pool(graph, word):  # whose name ends like that
        return word, None
    if len(match["amount"]) > 20:
        raise UsageError(f"amount: expected at most {limits.SIZE_MAX} units", where=match["where"])
    return match["where"], int(match["amount"])


def _is_pool(graph: ResourceGraph, word: str) -> bool:
    """Whether a pool has exactly this name, path or URI."""
    structure = graph.structure
    try:
        return bool(structure.vertex(word) + 1 if structure.lookup.is_placed(word) else structure.named([word]))
    except FluxresError:
        return False


def _in_units_of(accounts: Accounts, v: int, size: str) -> int:
    """A size such as `10GiB` in the unit of a pool. Errors: InputError if it is not a whole number."""
    with ErrorPlace(lambda: accounts.where(v)):
        return unit.exactly(size, accounts.unit(v))


def chosen(graph: ResourceGraph, words: Sequence[str], criteria: str | None, *, before: str = "") -> list[int]:
    """Vertices of `PATH …`, or all that meet the criteria.

    Args:
        before: the argument that follows the paths, for the error if there are none: a sole path was taken for it.

    Errors: as :func:`targets`.
    """
    if criteria is not None:
        selected: list[int] = found(graph, words, criteria).vertices.tolist()
        return selected
    if not words:
        message = f"no pools named before {before}" if before else "no pools named"
        raise UsageError(message, hint="name pools by path, such as /demo/rack0/node[0-3], or --find CRITERIA")
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


# -- requests ------------------------------------------------------------------------------------------------------------


_COMPLETERS: Final = {"partition": completing.partition, "nodelist": completing.pool}


def _click(option: options.Option) -> click.Option:
    """An option of a request, for click."""
    kind: dict[str, Any] = {"metavar": option.value} if option.value else {"is_flag": True}
    if option.name in _COMPLETERS:
        kind["shell_complete"] = _COMPLETERS[option.name]
    return click.Option([*option.spellings, option.name], help=f"{option.help[:1].upper()}{option.help[1:]}", **kind)


_LANGUAGE: Final = click.Option(
    ["--request-format", "language"],
    type=click.Choice(["hyperqueue", "canary", "ctest", "jqm"]),
    help="The request, a single word, is in the language of this system.",
)


def _policy_option(default: str) -> click.Option:
    others = ", ".join(name for name in ("first", "low", "high", "pack", "spread", "locality") if name != default)
    text = f"Pools to prefer: {default} (default), {others}, …"
    return click.Option(["-M", "--match-policy", "policy"], metavar="P", shell_complete=completing.match_policy, help=text)


_NONE: Final[options.Given] = MappingProxyType({})


class Asked:
    """The words and options of a command: pools by name, or one request.

    Args:
        words: as typed.
        sizes: the options that say how much, by name.
        policy: the name given.
        default: the policy if none was given.
        language: the other system whose language the word is in.
        conditions: the options that say where, and for how long, by name.

    `pools` and `request` are there once `on` was called.

    Errors: UsageError for pools together with a request, two requests, and a policy or condition for pools; InputError for an
    invalid request or condition.
    """

    def __init__(
        self,
        words: Sequence[str],
        sizes: options.Given = _NONE,
        policy: str | None = None,
        default: str = "first",
        language: str | None = None,
        conditions: options.Given = _NONE,
    ) -> None:
        if not words and not sizes and "nodelist" in conditions:
            sizes, conditions = conditions, _NONE  # all of these nodes
        if language is not None and (sizes or len(words) != 1):
            given = [plural(len(words), "word")] * (not sizes or bool(words)) + [plural(len(sizes), "option")] * bool(sizes)
            message = f"--request-format needs a single word, got {' and '.join(given)}"
            raise UsageError(message, hint=f"quote the request of {language}; put it after -- if it begins with -")
        self.pools: list[str] = []
        self.request: Request | None = None
        self.policy = default if policy is None else policy
        self.is_given = bool(words or sizes)
        self._given = words, sizes, language, conditions
        self._option = "--match-policy" if policy is not None else options.spelling(conditions) if conditions else None
        self._is_open = language is None and any(names_pool(word) is None for word in words)
        if not self._is_open:
            self._settle([word for word in words if language is None and names_pool(word)])

    @property
    def words(self) -> Sequence[str]:
        """As typed."""
        return self._given[0]

    @property
    def has_several(self) -> bool:
        """Whether there are several words, or a word and options that say how much."""
        return len(self._given[0]) + bool(self._given[1]) > 1

    def instead(self, words: Sequence[str] = (), sizes: options.Given = _NONE, language: str | None = None) -> Asked:
        """Something else, under the same conditions and with the same policy."""
        return Asked(words, sizes, self.policy, self.policy, language, self._given[3])

    def on(self, graph: ResourceGraph, *, alone: bool = True) -> Asked:
        """Itself, with the words settled that may be pools or requests.

        Args:
            alone: refuse options of a request if there is none.

        Errors: as the class.
        """
        if self._is_open:
            self._is_open = False
            self._settle([word for word in self._given[0] if _names_pool_of(graph, word)])
        if alone:
            self.require_options_used()
        return self

    def document(self, graph: ResourceGraph) -> dict[str, Any]:
        """The request as a document, or the pools by path with their amounts, as a server gets what is asked for."""
        request = self.on(graph).request
        if request is None:
            return named(graph, targets(graph, self.pools))
        from fluxres.syntax.jobspec import to_document

        return to_document(request)

    def require_options_used(self) -> None:
        """Refuse options of a request if there is none. Errors: UsageError."""
        if self.request is None and self._option is not None:
            raise UsageError(f"{self._option} needs a request", hint="leave it out for named pools")

    def _settle(self, pools: list[str]) -> None:
        words, sizes, language, conditions = self._given
        self.pools = pools
        texts = [word for word in words if word not in pools]
        if len(texts) + len(pools) + bool(sizes) > 1:
            self._require_one_kind(texts, sizes)
        if sizes:
            from fluxres.syntax import jobspec

            self.request = jobspec.of_options({**sizes, **conditions})
        elif texts:
            self.request = _read(texts[0], language, conditions)

    def _require_one_kind(self, texts: list[str], sizes: options.Given) -> None:
        if sizes:
            texts = [*texts, options.text(sizes)]
        if len(texts) > 1:
            raise UsageError(
                f"more than one request: {texts[0]!r:.80} and {texts[1]!r:.80}",
                hint="join shapes of one job as [A;B]; for several jobs, give 'allocate' one --job for each",
            )
        if texts and self.pools:
            raise UsageError(
                f"both pools and a request were given: {self.pools[0]!r:.80} and {texts[0]!r:.80}",
                hint="give one of the two; a path or the name of a pool is a pool, anything else is a request",
            )

    def needed(self, graph: ResourceGraph) -> Request:
        """The request of a command that accepts nothing else.

        Errors: UsageError if there is none.
        """
        self.on(graph)
        if self.pools:
            raise UsageError("expected a request, got a pool", where=self.pools[0], hint=_HINT)
        if self.request is None:
            raise UsageError("no request was given", hint=_HINT)
        return self.request


_HINT: Final = "such as slot=4/[core=2;gpu=1], -N4 -c8, or a jobspec in a file"


def names_pool(word: str) -> bool | None:
    """Whether a word names pools rather than a request; None where that depends on the names in the graph.

    >>> [names_pool(word) for word in ("/demo/rack0=2", "power:/pdu[0-1]", "slot=4/core=2", "-", "node3=1", "core0@node3")]
    [True, True, False, False, None, None]
    >>> names_pool("power: power:/pdu0 -> /demo/rack0=100")
    True
    """
    from fluxres.graph.accounts import is_edge

    if word.endswith(_ENDINGS) and Path(word).is_file():
        return False
    if _POOL.match(word) is not None or is_edge(word) or _UUID.fullmatch(word) is not None:
        return True
    return None if _MAY_BE_POOL.fullmatch(word) is not None else False


def _names_pool_of(graph: ResourceGraph, word: str) -> bool:
    from fluxres.cli.output import note
    from fluxres.model.targets import names_pools

    known, structure = names_pool(word), graph.structure
    if known is not None:
        return known
    name = word.rpartition("=")[0] or word
    if names_pools(structure, name):
        return True
    alike = structure.named([name])
    if len(alike) == 1 and structure.of_type(name).tolist() != alike:
        note(f"{name!r} is read as a request for this type, not as the pool {structure.where(alike[0])}")
    elif name not in structure.types and (hint := structure.short_names.nearest(name, "")):
        note(f"no pool is named {name!r} ({hint}), so it is read as a request for this type")
    return False


def _read(word: str, language: str | None, conditions: options.Given) -> Request:
    from fluxres.cli.output import note
    from fluxres.syntax.jobspec import Request, of_options

    found = Request.parse(Path(word) if word.endswith(_ENDINGS) and language is None else word, format=language)
    for slot in found.stray_slots:
        note(f"a task refers to the slot {slot!r:.80}, which is not among the resources")
    if language is not None:
        for left in found.attributes["user"]["asked"]["left_out"]:
            note(f"left out: {left}")
    return of_options(conditions, found) if conditions else found


def each(
    words: Sequence[str],
    sizes: options.Given,
    policy: str | None,
    jobs: Sequence[str],
    language: str | None = None,
    conditions: options.Given = _NONE,
) -> list[Asked]:
    """The requests of several jobs, one word each, in their order.

    Errors: UsageError if jobs and words do not correspond; as Asked, with the word.
    """
    if sizes:
        message = "options such as -N apply to one job, but several were named"
        raise UsageError(message, hint="write each request as one word after --, such as -- '-N4 -c8' '-n2'")
    if len(words) != len(jobs):
        number = f"{plural(len(words), 'request')} and {len(jobs)} jobs"
        raise UsageError(f"{number} were given", hint="name one job for each request, in their order, or one job for all pools")
    if language is not None:
        return [Asked([word], policy=policy, language=language, conditions=conditions) for word in words]
    return [Asked([word], policy=policy, conditions=conditions) for word in words]


def each_on(graph: ResourceGraph, asked: Sequence[Asked]) -> None:
    """Tell pools and requests apart for several jobs; an option of requests needs at least one.

    Errors: as Asked.
    """
    for one in asked:
        one.on(graph, alone=False)
    if all(one.request is None for one in asked):
        asked[0].require_options_used()


_SHORT: Final = frozenset(word for option in options.OPTIONS for word in option.spellings if len(word) == 2)


_OWN_LETTERS: Final = {"-A": "--account", "-d": "--dependency", "-J": "--name", "--job-name": "--name"}
"""Options of Slurm for those of commands that have them and no `--job`."""


class RequestCommand(Command):
    """A command with the arguments and options of a request; its function gets `asked` for its `words`.

    If it has `jobs` and several are named, `asked` is a list with the request of each.

    Args:
        policy: the default; None without an option for it.
    """

    def __init__(self, *args: Any, policy: str | None = "first", has_time: bool = True, **settings: Any) -> None:
        super().__init__(*args, **settings)
        arguments = sum(isinstance(param, click.Argument) for param in self.params)
        self.asking = [option for option in options.OPTIONS if has_time or option.name != "time"]
        self.params[arguments:arguments] = [*map(_click, self.asking), _LANGUAGE]
        if policy is not None:
            self.params.insert(arguments + len(self.asking) + 1, _policy_option(policy))
        self.policy = policy or "first"
        valued = {word for param in self.params if isinstance(param, click.Option) and not param.is_flag for word in param.opts}
        old = {word for word, now in OLD_OPTIONS.get(self.name or "", {}).items() if now in valued}
        #: The options that take the next word as their value.
        self._valued = valued | old

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, after splitting options that came as one word.

        Errors: UsageError for an option of Slurm or Flux that has no equal, with the way to say it.
        """
        end = args.index("--") if "--" in args else len(args)
        try:
            return super().parse_args(ctx, [*self._apart(args[:end]), *args[end:]])
        except click.NoSuchOption as error:
            own = _OWN_LETTERS.get(error.option_name)
            hint = f"use {own}" if own is not None and self._takes(own) else options.instead(error.option_name)
            if not hint:
                raise
            raise UsageError(f"no such option: {error.option_name}", hint=hint) from None

    def _takes(self, option: str) -> bool:
        """Whether there is an option, and the command gives the job its id."""
        known = {word for param in self.params for word in param.opts}
        return option in known and "--job" not in known

    def _apart(self, args: Sequence[str]) -> Iterator[str]:
        """The words, with options that came as one word split, and without the sign of `-N=4`."""
        due = False
        for word in args:
            if not due and _OPTION_WORDS.fullmatch(word) and options.starts(word):
                yield from self._apart(options.split(word))
                continue
            is_short = word[:2] in _SHORT and word[2:3] == "=" and not due
            yield word[:2] + word[3:].strip() if is_short else word
            due = not due and word in self._valued

    def invoke(self, ctx: click.Context) -> Any:
        """Run it with the request of its words and options."""
        given = ctx.params
        said = {option.name: given.pop(option.name) for option in self.asking}
        sizes = {option.name: said[option.name] for option in options.SIZES if said[option.name]}
        conditions = {option.name: said[option.name] for option in options.CONDITIONS if said.get(option.name) is not None}
        if "duration" in given and "time" in conditions:
            given["duration"] = _one_duration(given["duration"], options.duration_s({"time": conditions.pop("time")}))
        words, policy, language = given.pop("words"), given.pop("policy", None), given.pop("language")
        jobs = given.get("jobs", ())
        if len(jobs) > 1:
            given["asked"] = each(words, sizes, policy, jobs, language, conditions)
        else:
            given["asked"] = Asked(words, sizes, policy, self.policy, language, conditions)
        return super().invoke(ctx)


def _one_duration(duration: float | None, time: float | None) -> float | None:
    if duration is not None and duration != time:
        raise UsageError(
            "both --duration and --time were given, and differ",
            hint="they are the same; without a unit, --duration counts seconds and --time minutes",
        )
    return time


def endless(end: float | None, duration_s: float | None) -> tuple[float | None, float | None]:
    """End and duration, with `--end -` converted to an infinite duration: it overrides the duration of a request, which a missing
    end would not.

    >>> endless(float("inf"), None), endless(5.0, None)
    ((None, inf), (5.0, None))
    """
    return (None, inf) if end == inf and duration_s is None else (end, duration_s)
