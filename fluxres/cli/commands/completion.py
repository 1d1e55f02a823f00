"""`fluxres completion`: shell completion of commands, options, paths and jobs."""

from __future__ import annotations

import click

from fluxres.cli.program import Command


@click.command("completion", cls=Command, outputs=("table",))
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    For bash: eval "$(fluxres completion bash)"; put it into ~/.bashrc for every shell.
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    if found is not None:
        click.echo(found(ctx.find_root().command, {}, "fluxres", "_FLUXRES_COMPLETE").source())
