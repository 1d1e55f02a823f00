"""`fluxres completion`: the script of a shell that completes commands, options and their values."""

from __future__ import annotations

import click

from fluxres.cli.program import Command


@click.command("completion", cls=Command, outputs=("table",))
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    It completes commands, options, pools, jobs, users, partitions, graphs, states, formats, policies, criteria and files. For
    bash, put eval "$(fluxres completion bash)" into ~/.bashrc; for zsh, put it into ~/.zshrc, after compinit, with zsh instead of
    bash. For fish: fluxres completion fish > ~/.config/fish/completions/fluxres.fish
    """
    from fluxres.cli import shells

    click.echo(shells.script(ctx.find_root().command, shell), nl=False)
