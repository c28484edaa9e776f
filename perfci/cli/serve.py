"""``perfci serve``: the dashboard on a production server."""

from __future__ import annotations

from contextlib import closing

import click

from perfci.cli.context import config_here, store_to_read
from perfci.cli.options import global_options
from perfci.config import Config
from perfci.service.judging import policy_of
from perfci_web import serve


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="the address to listen on")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="0 picks a free one")
@global_options
def command(host: str, port: int) -> None:
    """Show what the store holds until interrupted."""
    serve_dashboard(config_here(), host, port)


def serve_dashboard(config: Config, host: str, port: int) -> None:
    """Serve until interrupted and say where."""
    with closing(store_to_read(config)) as store:
        serve(
            store, host, port, policy=policy_of(config), history=config.settings.history,
            on_ready=lambda url: click.echo(f"serving {url} (Ctrl-C ends it)"),
        )  # fmt: skip
