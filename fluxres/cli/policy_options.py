"""Options of the commands that run instances: the policies and the inventory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from fluxres.cli import completing

F = TypeVar("F", bound=Callable[..., Any])


def queue_policy_option(text: str, name: str = "queue_policy", **more: Any) -> Callable[[F], F]:
    """`-Q`.

    Args:
        text: of the help.
        name: of the parameter.
        more: arguments of `click.option`.
    """
    complete = completing.queue_policy
    return click.option("-Q", "--queue-policy", name, metavar="P", shell_complete=complete, help=text, **more)


def match_policy_option(text: str, **more: Any) -> Callable[[F], F]:
    """`-M`, as `queue_policy_option`."""
    return click.option("-M", "--match-policy", metavar="P", shell_complete=completing.match_policy, help=text, **more)


inventory_option: Final = click.option(
    "--inventory",
    type=click.Choice(("graph", "auto")),
    metavar="graph|auto",
    default="graph",
    show_default=True,
    help="How free resources are tracked.",
)
"""Of commands that run instances in real time."""
