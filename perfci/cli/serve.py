"""``perfci serve``: the dashboard on a production server."""

from __future__ import annotations

from contextlib import closing

import click

from perfci.cli.context import config_here, store_to_read
from perfci.cli.options import global_options


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="the address to listen on")
@click.option("--port", type=click.IntRange(0, 65535), default=8787, show_default=True, help="0 picks a free one")
@global_options
def command(host: str, port: int) -> None:
    """Show what the store holds until interrupted."""
    from perfci_web import serve

    config = config_here()
    with closing(store_to_read(config)) as store:
        serve(store, host, port, on_ready=lambda url: click.echo(f"serving {url} (Ctrl-C ends it)"))
