"""The command that serves the graphs of a store over HTTP."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fluxres import limits
from fluxres.cli import completing
from fluxres.cli.output import note
from fluxres.cli.program import Command
from fluxres.cli.settings import PLAIN_OUTPUTS, Duration, Settings
from fluxres.errors import UsageError

if TYPE_CHECKING:
    from fluxres.service.leadership import Leadership
    from fluxres.service.tenancy import Tenancy


@click.command("serve", cls=Command, outputs=PLAIN_OUTPUTS)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="PORT", default=7390, show_default=True, help="Port; 0 is any free one."
)
@click.option(
    "--tokens",
    metavar="FILE",
    shell_complete=completing.file,
    help="Tokens, their roles and scopes (fluxres help service). Default: NAME:ROLE:TOKEN words in $FLUXRES_TOKENS. Needed "
    "unless ADDRESS is of this machine.",
)
@click.option("--tls-cert", metavar="FILE", shell_complete=completing.file, help="Certificate (PEM), for HTTPS.")
@click.option("--tls-key", metavar="FILE", shell_complete=completing.file, help="Its private key (PEM).")
@click.option(
    "--question-time",
    "question_s",
    type=Duration(),
    metavar="D",
    default=limits.SERVICE_QUESTION_SECONDS_MAX,
    help=f"How long a query may take. Default: {limits.SERVICE_QUESTION_SECONDS_MAX:g}s.",
)
@click.option(
    "--no-standby",
    "may_stand_by",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Refuse to start while another server leads the store, instead of waiting as a standby.",
)
@click.option(
    "--lease",
    "life_s",
    type=Duration(),
    metavar="D",
    default=limits.SERVICE_LEASE_SECONDS_DEFAULT,
    help=f"Silence after which another server takes over. Default: {limits.SERVICE_LEASE_SECONDS_DEFAULT:g}s.",
)
@click.option(
    "--job",
    metavar="J",
    shell_complete=completing.job,
    help="Serve only what this job holds, as a graph of its own, under a lease that the parent grants.",
)
@click.option("--as", "name", metavar="NAME", help="With --job: name of that graph. Default: GRAPH.J.")
@click.option("--url", metavar="URL", help="Address under which others reach this server. Default: ADDRESS, or the host name.")
@click.option("--create", "may_create", is_flag=True, help="Create the SQLite store if it does not exist.")
@click.option("--json-log", "is_json_log", is_flag=True, help="Log JSON lines.")
@click.option("--log-requests", "is_verbose", is_flag=True, help="Log each request.")
@click.pass_obj
def serve_command(settings: Settings, /, tokens: str | None, tls_cert: str | None, tls_key: str | None, **given: Any) -> None:
    """Serve the graphs of the store over HTTP, until a signal ends it.

    The API has the methods of the Python package; its documents are those that the commands print as JSON. /schema/openapi.json
    describes it, `fluxres.connect` and `--store http://…` use it.

    One server leads a store. Another one on the same store answers questions, and takes over when the first one ends or is silent
    for the time of its lease.

    With --job, it is an instance below the graph of the store, on any machine: it serves what the job holds. When it ends, or is
    silent for the time of its lease, the job is freed and its graph is removed. Where the store cannot be reached, the server of
    the parent is enough: --store http://HOST:PORT.
    """
    if given["name"] is not None and given["job"] is None:
        raise UsageError("--as is the name of the graph of a job", hint="give --job")
    if settings.graph is not None and given["job"] is None:
        hint = "leave it out, or give --job; a token may be for some graphs only"
        raise UsageError("all graphs of a store are served", where="--graph", hint=hint)
    life_s = given["life_s"]
    if not limits.SERVICE_LEASE_SECONDS_MIN <= life_s <= limits.SERVICE_LEASE_SECONDS_MAX:
        bounds = f"{limits.SERVICE_LEASE_SECONDS_MIN:g} to {limits.SERVICE_LEASE_SECONDS_MAX:g}"
        raise UsageError(f"--lease: expected {bounds} seconds, got {life_s:g}")
    try:
        from fluxres.service import access, run
        from fluxres.service import tokens as tokens_module
        from fluxres.service.client.addresses import address
        from fluxres.service.tenancy import Tenancy
    except ModuleNotFoundError as error:
        raise UsageError(f"the service needs {error.name}", hint="pip install litestar uvicorn prometheus-client") from None

    if given["url"] is not None:
        address(given["url"])

    def tell(at: str, leadership: Leadership | Tenancy) -> None:
        facts = {"url": at, "leads": leadership.is_leading, "leader": leadership.leader, "epoch": leadership.epoch}
        said, more = f"listening on {at}", ""
        if isinstance(leadership, Tenancy):
            child = leadership.child
            facts |= {"graph": child.name, "parent": child.parent, "job": child.job}
            more = f"graph '{child.name}' has what job '{child.job}' of graph '{child.parent}' holds"
        elif not leadership.is_leading:
            more = f"standing by: {leadership.leader} leads the store (epoch {leadership.epoch})"
        sys.stdout.write(f"{json.dumps(facts) if settings.json else said}\n")
        sys.stdout.flush()
        if more and not settings.json:
            note(more)

    allowed = access.Access.open(tokens, os.environ.get(tokens_module.VARIABLE), given["host"])
    certificate, key = (None if name is None else Path(name) for name in (tls_cert, tls_key))
    run.serve(settings.store, allowed, run.Listening(**given, graph=settings.graph, certificate=certificate, key=key), tell)
