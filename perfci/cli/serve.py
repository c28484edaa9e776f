"""``perfci serve``: the dashboard and the API on a production server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import click

from perfci.cli.shared.context import config_file_given, config_here, store_to_read, store_to_write
from perfci.cli.shared.log_setup import write_logs
from perfci.cli.shared.options import global_options
from perfci.cli.shared.supervised_process import Beside
from perfci.config import Config
from perfci.service.pulls.workflow_run_handler import app_of
from perfci.store import open_store, upgrade_if_older
from perfci_web import serve, serve_workers
from perfci_web.write_access import READ_ONLY_LINE, may_write


@click.command("serve")
@click.option("--host", help="the address to listen on, instead of [server] host")
@click.option("--port", type=click.IntRange(0, 65535), help="instead of [server] port; 0 picks a free one")
@click.option("--workers", type=click.IntRange(1, 64), help="processes, instead of [server] workers")
@click.option("--migrate", is_flag=True, help="bring an older database to this version's schema first")
@click.option("--no-worker", is_flag=True, help="judge no uploads here: `perfci judge-worker` does, somewhere")
@click.option("--read-only", is_flag=True, help="accept no changes")
@click.option("--writable", is_flag=True, help="fail where it would have to be read-only")
@global_options
def command(read_only: bool, writable: bool, migrate: bool, no_worker: bool, **given: str | int | None) -> None:
    """Show what the store holds and take uploads, until interrupted.

    On this machine it needs no login. On another address it is read-only unless [access] mode says who is who.
    """
    changed: dict[str, object] = {name: value for name, value in given.items() if value is not None}
    changed |= ({"migrate": True} if migrate else {}) | ({"worker": False} if no_worker else {})
    config = with_server(config_here(), changed)
    write_logs(config.settings.server.log)
    serve_dashboard(config, read_only=read_only, writable=writable)


def serve_dashboard(config: Config, *, read_only: bool = False, writable: bool = False) -> None:
    """Serve until interrupted and say where."""
    server, mode = config.settings.server, config.settings.access.mode
    open_to_changes = may_write(server.host, mode, read_only=read_only, writable=writable)
    if server.migrate:
        upgrade_if_older(config.database_url)
    store = store_to_read(config) if read_only else store_to_write(config, durable=True)
    read_only_line = "" if open_to_changes or read_only else READ_ONLY_LINE

    def ready(url: str) -> None:
        click.echo(f"serving {url} (Ctrl-C ends it)")
        if read_only_line:
            click.echo(read_only_line)

    with closing(store), _judging(config, open_to_changes and server.worker) as beside:
        serving: dict[str, Any] = {
            "read_only": not open_to_changes, "settings": config.settings, "secrets": config.secrets,
            "every_second": beside.keep, "on_ready": ready,
        }  # fmt: skip
        if server.workers == 1:
            serve(store, server.host, server.port, **serving)
            return
        store.close()  # its connections would belong to all workers at once
        pool = config.settings.store.pool
        again = partial(open_store, config.database_url, create=False, durable=open_to_changes, pool=pool)
        serve_workers(again, server.host, server.port, in_worker=beside.let_go, **serving)


@contextmanager
def _judging(config: Config, wanted: bool) -> Iterator[Beside]:
    """The process that judges what is uploaded here, started with the server and ended with it."""
    if wanted and config.settings.app.id:
        app_of(config)  # that process would say in the log what can be said here
    file = config_file_given()
    arguments = ["judge-worker", *(["--config", str(file.absolute())] if file else [])]
    beside = Beside(arguments if wanted else [], {"PERFCI_DB": config.database_url}, config.root)
    try:
        yield beside
    finally:
        beside.end()


def with_server(config: Config, changed: dict[str, object]) -> Config:
    server = config.settings.server.model_copy(update=changed)
    return config.model_copy(update={"settings": config.settings.model_copy(update={"server": server})})
