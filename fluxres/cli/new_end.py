"""The new end of a job, as `extend` and `child extend` take it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import click

from fluxres.cli.arguments import Moment
from fluxres.cli.program import Command
from fluxres.cli.settings import Duration
from fluxres.clock import seconds
from fluxres.documents.document import excerpt
from fluxres.errors import FluxresError, InputError, UsageError
from fluxres.render.text import printable
from fluxres.syntax import duration as durations
from fluxres.syntax import fluid

if TYPE_CHECKING:
    from fluxres.model import ResourceGraph

_SHORTER: Final = re.compile(r"-[0-9.]+[a-z]*", re.ASCII)
_FORMS: Final = "+D is later and -D is earlier, by more than 0; D without a sign is the whole duration"
LATEST: Final = "max"


class EndCommand(Command):
    """A command whose second word is a new end, which may begin with `-`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does, with a word such as `-30m` as the value of --duration; after `--` it is a word of its own."""
        before, last = ["", *args], args.index("--") if "--" in args else len(args)
        changed = [
            f"--duration={word}" if _SHORTER.fullmatch(word) and before[i] not in ("--duration", "--until", "--end") else word
            for i, word in enumerate(args[:last])
        ]
        return super().parse_args(ctx, [*changed, *args[last:]])


def new_end(command: Callable[..., Any]) -> Callable[..., Any]:
    """The word and the options that `NewEnd` is made of."""
    text = "New total duration from the start of the job; +D moves the current end later, -D earlier."
    command = click.option("--duration", metavar="[+|-]D", help=text)(command)
    command = click.option("--end", type=Moment(), metavar="T", help="New end; - for none. Here +D is from now.")(command)
    return click.argument("change", required=False, metavar="[+D|-D|T|max]")(command)


class NewLength:
    """A duration that may have a sign: then it counts from the present one.

    Args:
        place: for messages.

    Errors: InputError; UsageError for 0 without a sign.
    """

    def __init__(self, text: str, place: str = "--duration") -> None:
        sign = text[:1] if text[:1] in ("+", "-") else ""
        self.text, self.is_relative, self._is_less = text, bool(sign), sign == "-"
        if sign and text[1:2] in ("", " ", "+", "-"):
            raise self._no_change(place)
        try:
            self.given_s = Duration(is_positive=not sign).convert(text.removeprefix(sign), None, None)
        except FluxresError as error:
            error.where = place or error.where
            raise
        if sign and not self.given_s:
            raise self._no_change(place)

    def _no_change(self, place: str) -> InputError:
        return InputError(f"expected a change such as +1h or -30m, got {excerpt(self.text)}", where=place, hint=_FORMS)

    def after(self, before_s: float) -> float:
        """The new value, in seconds."""
        if not self.is_relative:
            return self.given_s
        return before_s - self.given_s if self._is_less else before_s + self.given_s

    def require_some_left(self, job: str, whole_s: float, left_s: float, way_out: str) -> None:
        """Refuse a change that leaves a job no time.

        Args:
            whole_s, left_s: how long it may run in all, and from now on.
            way_out: the command that ends it.

        Errors: UsageError.
        """
        if self._is_less and self.given_s >= left_s:
            left, whole = durations.readable(left_s), durations.readable(whole_s)
            has = whole if left == whole else f"{left} left of {whole}"
            hint = f"take less than {left}, or end the job: `{way_out}`"
            raise UsageError(f"job '{printable(job)}' has {has}, and {self.text} leaves nothing of it", hint=hint)


class NewEnd:
    """Where the end of a job moves.

    Args:
        change: `+D` or `-D` from the current end, a time, `-` for none, or `max`.
        end: instead.
        duration: instead, of the whole job; with a sign, from the current end.

    Attributes:
        given: the end, and the duration in seconds, if it is not relative.
        is_relative: whether it depends on what the job holds.

    Errors: UsageError if not exactly one is given; InputError.
    """

    def __init__(self, change: str | None, end: float | None, duration: str | None) -> None:
        _require_one(change, end, duration)
        is_latest = change == LATEST
        if change is not None and (change.startswith("+") or _SHORTER.fullmatch(change)):
            duration = change
        elif change is not None and not is_latest:
            end = _new_end(change)
        length = None if duration is None else NewLength(duration, "--duration" if change is None else "")
        self.given = end, None if length is None else length.given_s
        self.is_relative = is_latest or (length is not None and length.is_relative)
        self._length = length

    def of(self, graph: ResourceGraph, job: str) -> tuple[float | None, float | None]:
        """The end of a job, or its duration. Errors: UsageError if a relative one has no end; those of `latest_end`."""
        if not self.is_relative:
            return self.given
        if self._length is None:
            return graph.latest_end(job), None
        held, now = graph.allocation(job), seconds(graph.now())
        if held.end == math.inf:
            message = f"{self._length.text} moves the current end, but job '{job}' has none"
            raise UsageError(message, hint="set an end: --end T, or --duration D from its start")
        if held.end > now:
            left_s = held.end - max(held.start, now)
            self._length.require_some_left(job, held.end - held.start, left_s, _ending(graph, job))
        return self._length.after(held.end), None


def _ending(graph: ResourceGraph, job: str) -> str:
    """The command that ends a job."""
    facts = graph.records.facts.get(job)
    is_run = facts is not None and facts.launch is not None
    return f"fluxres {'cancel' if is_run else 'instance cancel' if fluid.is_name(job) else 'free'} {printable(job)}"


def _new_end(word: str) -> float:
    """Errors: InputError for another word than a time; UsageError with the way to say it for a duration without a sign."""
    try:
        return Moment().convert(word, None, click.get_current_context())
    except InputError as error:
        try:
            durations.read(word)
        except InputError:
            raise error from None
        hint = f"+{word} moves the end later, -{word} earlier; --duration {word} counts from the start of the job"
        raise UsageError(f"expected a time, or a duration with its sign, got '{word}'", hint=hint) from None


def _require_one(change: str | None, end: float | None, duration: str | None) -> None:
    given = [name for name, value in (("--end", end), ("--duration", duration), (change, change)) if value is not None]
    if len(given) != 1:
        wrong = f"both {given[0]} and {given[1]} were given" if given else "no new end was given"
        raise UsageError(wrong, hint="give one new end, such as +2h, -30m, 2026-12-01T08:00, max or --duration 3h")
