"""The command that serves the graphs of a store over HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from fluxres import limits
from fluxres.cli import completing
from fluxres.cli.program import Command
from fluxres.cli.settings import PLAIN_OUTPUTS, Duration, Settings
from fluxres.errors import UsageError


@click.command("serve", cls=Command, outputs=PLAIN_OUTPUTS)
@click.option("--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), metavar="PORT", default=7390, show_default=True, help="Port; 0 is any free one."
)
@click.option(
    "--tokens",
    metavar="FILE",
    shell_complete=completing.file,
    help="Tokens, their roles and scopes (TOML). Default: $FLUXRES_TOKENS. Needed unless ADDRESS is of this machine.",
)
@click.option("--tls-cert", metavar="FILE", shell_complete=completing.file, help="Certificate (PEM), for HTTPS.")
@click.option("--tls-key", metavar="FILE", shell_complete=completing.file, help="Its private key (PEM).")
@click.option(
    "--question-time",
    type=Duration(),
    metavar="D",
    default=limits.SERVICE_QUESTION_SECONDS_MAX,
    help=f"How long a question may take. Default: {limits.SERVICE_QUESTION_SECONDS_MAX:g}s.",
)
@click.option("--json-log", is_flag=True, help="Log JSON lines.")
@click.option("--log-requests", is_flag=True, help="Log each request.")
@click.pass_obj
def serve_command(
    settings: Settings,
    host: str,
    port: int,
    tokens: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    question_time: float,
    json_log: bool,
    log_requests: bool,
) -> None:
    """Serve the graphs of the store over HTTP, until a signal ends it.

    The API has the methods of the Python package; its documents are those that the commands print as JSON. /schema/openapi.json
    describes it, `fluxres.connect` and `--store http://…` use it.
    """
    try:
        from fluxres.service import access, run
    except ModuleNotFoundError as error:
        raise UsageError(f"the service needs {error.name}", hint="pip install litestar uvicorn prometheus-client") from None

    def tell(address: str) -> None:
        sys.stdout.write(f'{{"url": "{address}"}}\n' if settings.json else f"listening on {address}\n")
        sys.stdout.flush()

    allowed = access.Access.open(tokens, os.environ.get(access.VARIABLE), host)
    certificate, key = (None if name is None else Path(name) for name in (tls_cert, tls_key))
    listening = run.Listening(host, port, certificate, key, question_time, json_log, log_requests)
    run.serve(settings.store, allowed, listening, tell)
