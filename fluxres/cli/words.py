"""Words of earlier versions, which still work, are offered nowhere, and whose note names the present word; and words of other
systems, which do not work, but whose error names the word here."""

from __future__ import annotations

from typing import Any, Final, cast

import click

OLD_COMMANDS: Final = {
    "available": "find 'available>0'",
    "allocated": "jobs",
    "aggregate": "info PATH",
}
"""The command line that replaced each command."""

ELSEWHERE: Final = {
    **dict.fromkeys(("sinfo", "status", "resource"), "fluxres nodes"),
    **dict.fromkeys(("squeue", "queue", "job", "list"), "fluxres jobs, or fluxres ps for jobs of run and shell"),
    **dict.fromkeys(("scancel", "kill"), "fluxres cancel JOB for jobs of run and shell, fluxres free JOB for others"),
    "release": "fluxres free JOB",
    "redo": "fluxres undo --redo",
    **dict.fromkeys(("revert", "rollback"), "fluxres undo"),
    **dict.fromkeys(("delete", "remove", "rm"), "fluxres free JOB, fluxres unlink PATH, or fluxres graphs drop NAME"),
    **dict.fromkeys(("salloc", "alloc"), "fluxres shell REQUEST, or fluxres allocate REQUEST --job JOB"),
    **dict.fromkeys(("srun", "exec"), "fluxres run REQUEST -- COMMAND"),
    **dict.fromkeys(("sbatch", "submit"), "fluxres run --wait REQUEST -- COMMAND"),
    **dict.fromkeys(("drain", "down"), "fluxres state PATH drain --reason TEXT"),
    **dict.fromkeys(("resume", "undrain", "up"), "fluxres state PATH up"),
    **dict.fromkeys(("scontrol", "describe", "get", "lstopo", "tree"), "fluxres show PATH, or fluxres jobs JOB"),
    **dict.fromkeys(("sacct", "history", "events"), "fluxres log"),
    **dict.fromkeys(("maintenance", "maint", "reservation"), "fluxres reserve PATH"),
    **dict.fromkeys(("import", "open"), "fluxres load FILE"),
    **dict.fromkeys(("export", "dump"), "fluxres save FILE"),
    **dict.fromkeys(("use", "config", "context"), "fluxres graphs use NAME"),
    **dict.fromkeys(("update", "modify"), "fluxres extend JOB, fluxres state PATH, or fluxres apply FILE"),
    **dict.fromkeys(("study", "sweep"), "fluxres experiment run FILE"),
}
"""What people type who know Slurm, Flux, HyperQueue or kubectl, and the command line that does it here."""

_START: Final = {"--at": "--start"}
_MATCH: Final = {"--policy": "--match-policy"}
OLD_OPTIONS: Final[dict[str, dict[str, str]]] = {
    **dict.fromkeys(("allocate", "grow", "shrink", "stage", "why"), _START | _MATCH),
    "when": {"--after": "--start"} | _MATCH,
    "free": _START,
    "find": {**_START, "--hierarchy": "--subsystem"},
    "extend": {"--until": "--end"},
    "copy": {**_START, "--to": "--as"},
    "merge": {"--at": "--as"},
    "unlink": {"--hierarchy": "--subsystem"},
    "save": {"--where": "--path"},
    "simulate": {"-m": "--machine", "-q": "--queue-policy", "-t": "--topology", "--hierarchy": "--topology"},
}
"""The option that replaced each option, by command."""


def command_name(ctx: click.Context) -> str:
    """The words of the command without `fluxres`: `info`, `graphs use`."""
    names = []
    while ctx.parent is not None:
        names.append(ctx.info_name or "")
        ctx = ctx.parent
    return " ".join(reversed(names))


def old_options(command: str, params: list[click.Parameter]) -> list[click.Parameter]:
    """The options that a command had under other words, hidden."""
    replaced = OLD_OPTIONS.get(command, {})
    by_word = {word: param for param in params if isinstance(param, click.Option) for word in param.opts}
    return [OldOption(word, by_word[now], now) for word, now in replaced.items()]


def note_old(ctx: click.Context, old: str, now: str) -> None:
    """Name the present word for an old one, but not to a completing shell."""
    if not ctx.resilient_parsing:
        from fluxres.cli.output import note

        note(f"{old!r} is now {now!r}; the old word will go")


class OldOption(click.Option):
    """An option under the word that it had before: hidden, and its value is that of the present option.

    Args:
        word: the old word.
        option: the present option.
        now: its word.
    """

    def __init__(self, word: str, option: click.Option, now: str) -> None:
        kind: dict[str, Any] = {"is_flag": True} if option.is_flag else {"type": click.UNPROCESSED, "multiple": option.multiple}
        name = f"old_{'short_' * (len(word) == 2)}{word.strip('-').replace('-', '_')}"
        super().__init__([word, name], hidden=True, is_eager=True, expose_value=False, **kind)
        self.option, self.now = option, now

    def handle_parse_result(self, ctx: click.Context, opts: Any, args: list[str]) -> tuple[Any, list[str]]:
        """Hand the value over to the present option, which click handles afterwards."""
        given = cast("dict[str, Any]", opts)
        if self.name in given:
            if self.option.name in given and not ctx.resilient_parsing:
                raise click.UsageError(f"both {self.opts[0]} and {self.now} were given; they are the same option", ctx)
            given[str(self.option.name)] = given.pop(self.name)
            note_old(ctx, self.opts[0], self.now)
        return None, args
