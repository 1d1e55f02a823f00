"""The options `--estimates` and `--estimates-for`, of commands that make limits by a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from fluxres.cli import completing

Made = TypeVar("Made", bound=Callable[..., Any])


def estimates_options(argument: str) -> Callable[[Made], Made]:
    """The options of commands that make limits by a model.

    Args:
        argument: the name of what the limits otherwise come from.
    """

    def add(command: Made) -> Made:
        for_ = click.option(
            "--estimates-for",
            metavar="W",
            type=click.Choice(("all", "missing")),
            default="all",
            help="Jobs that get such limits: all (default), missing (those without a limit).",
        )
        model = click.option(
            "--estimates",
            metavar="E",
            shell_complete=completing.estimates,
            help=f"Limits by a model: exact, factor:f=2, tsafrir:max=18h. Default: those of {argument}.",
        )
        return model(for_(command))

    return add
