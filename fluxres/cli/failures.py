"""How a command that failed ends: one line on standard error, and an exit status.

The status comes from the table in :mod:`fluxres.errors`. Errors from outside fluxres (a full disk, a closed pipe, Ctrl-C) are
mapped here, so that nobody ever sees a traceback.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from typing import Final, TextIO

import click

from fluxres.cli.settings import is_plain
from fluxres.documents.suggestion import did_you_mean, near
from fluxres.errors import FluxresError, InfeasibleRequest, InputError, InsufficientResources, StoreError, UsageError, exit_status
from fluxres.render import mistakes
from fluxres.render.text import printable, when_from

INTERRUPTED: Final = 130
CLOSED_PIPE: Final = 141
_REASONS_MAX: Final = 10
_ERROR: Final = "fluxres: ERROR"
_UNKNOWN: Final = re.compile(r"No such command '(.*?)'")
_RED_ERROR: Final = "fluxres: \x1b[31mERROR\x1b[0m"


def report(error: BaseException, *, as_json: bool) -> int:
    """Report an error on standard error and return the exit status."""
    if isinstance(error, KeyboardInterrupt | click.Abort):
        tell("fluxres: interrupted\n")
        return INTERRUPTED
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        _silence()
        return CLOSED_PIPE
    shown = _as_fluxres(error)
    if as_json:
        tell(json.dumps({**shown.to_dict(), "status": exit_status(shown)}) + "\n")
        return exit_status(shown)
    text = "".join(f"{printable(line)}\n" for line in _lines(shown))
    tell(text.replace(_ERROR, _RED_ERROR, 1) if sys.stderr.isatty() and not is_plain() else text)
    return exit_status(shown)


def _lines(error: FluxresError) -> list[str]:
    if isinstance(error, InsufficientResources) and error.earliest is not None:
        # The model uses seconds; users of the command line think in dates.
        error.hint = f"free from {when_from(error.earliest)} on"
    if isinstance(error, InputError):
        return mistakes.lines(error)
    needless = _needless(error)
    text = str(error).removeprefix(f"{error.where}: " if error.where in needless else "")
    first, *more = text.splitlines() or [""]
    lines = [f"{_ERROR} {first}", *(f"  {line}" for line in more)]
    reasons = getattr(error, "reasons", None) or {}
    if isinstance(reasons, dict) and len(reasons) > 1:
        said = f"{error.where}: {error.message}"
        others = [
            f"  {why}" if where in needless else f"  {where}: {why}"
            for where, why in reasons.items()
            if f"{where}: {why}".removesuffix(".") not in said
        ]
        lines += others[:_REASONS_MAX]
        lines += [f"  and {len(others) - _REASONS_MAX} more"] * (len(others) > _REASONS_MAX)
    return lines


def _needless(error: FluxresError) -> frozenset[str]:
    if not isinstance(error, InsufficientResources | InfeasibleRequest):
        return frozenset()
    from fluxres.render import refusals

    return refusals.needless(error)


def _as_fluxres(error: BaseException) -> FluxresError:
    if isinstance(error, InsufficientResources | InfeasibleRequest) and error.explanation is not None:
        from fluxres.render import refusals

        return refusals.worded(error)
    if isinstance(error, FluxresError):
        return error
    if isinstance(error, click.UsageError):
        return _as_usage(error)
    if isinstance(error, click.ClickException):
        return UsageError(error.format_message())
    if isinstance(error, OSError):
        _silence()
        return StoreError(error.strerror or str(error), where=str(error.filename or "standard output"))
    return StoreError("not enough memory", hint="free some, or take a smaller part of the machine")


def _as_usage(error: click.UsageError) -> UsageError:
    """What click says, as the rest of fluxres says it: a group without a command has its entire help as its message."""
    hint = f"{error.ctx.command_path if error.ctx is not None else 'fluxres'} --help"
    match error:
        case click.exceptions.NoArgsIsHelpError(ctx=click.Context(command=click.Group() as group) as ctx):
            return UsageError(f"expected a command: {', '.join(group.list_commands(ctx))}", hint=hint)
        case click.NoSuchOption():
            known = {option.lstrip("-"): option for option in error.possibilities or ()}
            meant = [known[word] for word in near(error.option_name.lstrip("-"), known, most=3)]
            return UsageError(f"no such option: {error.option_name}", hint=did_you_mean(meant) or hint)
        case click.UsageError(ctx=click.Context(command=click.Group() as group) as ctx) if word := _UNKNOWN.match(error.message):
            meant = near(word[1], group.list_commands(ctx))
            return UsageError(f"no command '{ctx.info_name} {word[1]}'" + (f", perhaps {meant[0]}" if meant else ""), hint=hint)
        case click.MissingParameter(param=click.Parameter() as param):
            return UsageError(f"missing {param.param_type_name}: {_name(param)}", hint=hint)
        case click.BadParameter(param=click.Parameter() as param):
            return UsageError(_expected(param, error.message.rstrip(".")), where=_name(param), hint=hint)
        case _:
            said = error.format_message().rstrip(".")
            extra = _EXTRA.fullmatch(said)
            return UsageError(f"unexpected argument: {extra[1]}" if extra else said[:1].lower() + said[1:], hint=hint)


_EXTRA: Final = re.compile(r"Got unexpected extra arguments? \((.*)\)", re.DOTALL)
_NOT_VALID: Final = re.compile(r"(.+) is not (a valid|in the range|one of) (.+)", re.DOTALL)


def _name(param: click.Parameter) -> str:
    """An option by its longest form, an argument as the help has it."""
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name


def _expected(param: click.Parameter, said: str) -> str:
    """What is wrong with the value of a parameter."""
    found = _NOT_VALID.fullmatch(said)
    if found is None:
        return said[:1].lower() + said[1:]
    value, kind, known = found.groups()
    number = "a whole number" if isinstance(param.type, click.types.IntParamType) else "a number"
    if kind == "one of":
        return f"expected one of {known}, got {value}"
    if not isinstance(param.type, click.types.IntParamType | click.types.FloatParamType):
        return said
    bounds = ""
    if kind == "in the range" and isinstance(param.type, click.IntRange | click.FloatRange):
        low, high, is_open = param.type.min, param.type.max, param.type.min_open
        bounds = f" {'above' if is_open else 'of at least'} {low}" if high is None else f" from {low} to {high}"
    return f"expected {number}{bounds}, got {value}"


def tell(text: str) -> None:
    """Write to standard error; if that fails, the text is lost and the command ends as it would have."""
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)


def _silence(stream: TextIO | None = None) -> None:
    """Discard what is still in the buffer of a stream (standard output by default), or Python complains about it at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), (stream or sys.stdout).fileno())
    except (OSError, ValueError):
        return
