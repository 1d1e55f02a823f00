"""Command line arguments that are requests and not pools, and the options of a request.

A word that starts with `/` or reads `name:/…` is a pool, and so are a uuid and the name of an edge; any other word is a request.
A word with the extension of a jobspec is a file. Flux's short options are options here too; given as one word (`"-N4 -c8"`), they
are split first. If several jobs are named, each word is a separate request; short options, which have no position among words,
must then be words as well, after `--`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres.cli.arguments import complete_policy
from fluxres.cli.program import Command
from fluxres.errors import UsageError

if TYPE_CHECKING:
    from fluxres.syntax.jobspec import Request

LETTERS: Final = "Nncgx"
_SHORT_WORDS: Final = re.compile(rf"-[{LETTERS}].*\s.*", re.DOTALL)
_POOL: Final = re.compile(r"/|[^\s/\[\]{}()=:;,]+:/")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(=[0-9]+)?")
_ENDINGS: Final = (".json", ".yaml", ".yml")
_OPTIONS: Final = (
    click.Option(["-N", "nodes"], metavar="NODES", help="Request: nodes, such as 4, 2-4 or 2+."),
    click.Option(["-n", "tasks"], metavar="TASKS", help="Request: tasks, each in its own slot. Default: one per node."),
    click.Option(["-c", "cores"], metavar="CORES", help="Request: cores per task. Default: 1."),
    click.Option(["-g", "gpus"], metavar="GPUS", help="Request: GPUs per task. Default: 0."),
    click.Option(["-x", "exclusive"], is_flag=True, help="Request: allocate nodes exclusively."),
)


_LANGUAGE: Final = click.Option(
    ["--request-format", "language"],
    type=click.Choice(["hyperqueue", "canary", "ctest"]),
    help="The request, a single word, is in the language of this system.",
)


_REQUIRES: Final = click.Option(
    ["--requires"], metavar="QUERY", help="Request: only nodes that meet this query, such as 'ssd -host:node[0-7]'."
)


def _policy_option(default: str) -> click.Option:
    others = ", ".join(name for name in ("first", "low", "high", "pack", "spread", "locality") if name != default)
    text = f"Pools to prefer: {default} (default), {others}, …"
    return click.Option(["--policy"], metavar="P", shell_complete=complete_policy, help=text)


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
            option = "--policy" if policy is not None else "--requires"
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
