"""``perfci serve``: the dashboard and the API on a production server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager

import click

from perfci.auth.tokens import make_token
from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import config_file_of_command_line, current_config
from perfci.cli.shared.server_logging import configure_logging
from perfci.cli.shared.store_and_machine_lock import open_store_to_read, open_store_to_write
from perfci.cli.shared.supervised_process import SupervisedProcess
from perfci.config import Config
from perfci.model import PerfciError
from perfci.net.local_server_tokens import keep_token_while_serving
from perfci.service.pulls.build_github_app import build_github_app
from perfci.store import upgrade_if_older
from perfci_web import serve
from perfci_web.server_access_mode import has_local_user, list_network_warnings, server_allows_writes

LOCAL_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9_-]{16,200}")


@click.command("serve")
@click.option("--host", help="the address to listen on, instead of [server] host")
@click.option("--port", type=click.IntRange(0, 65535), help="instead of [server] port; 0 picks a free one")
@click.option("--workers", type=click.IntRange(1, 64), help="processes, instead of [server] workers")
@click.option("--migrate", is_flag=True, help="bring an older database to this version's schema first")
@click.option("--no-worker", is_flag=True, help="do not start a judge worker")
@click.option("--read-only", is_flag=True, help="accept no changes")
@click.option("--writable", is_flag=True, help="fail instead of starting read-only")
@global_options
def serve_command(
    read_only: bool, writable: bool, migrate: bool, no_worker: bool, **server_options: str | int | None
) -> None:
    """Serve the dashboard and accept uploads, until interrupted.

    On a loopback address, the address that it prints logs you in; on others it is read-only unless [access]
    mode sets up logins.
    """
    overrides: dict[str, object] = {
        name: value for name, value in server_options.items() if value is not None
    }
    overrides |= ({"migrate": True} if migrate else {}) | ({"worker": False} if no_worker else {})
    config = override_server_settings(current_config(), overrides)
    configure_logging(config.settings.server.log)
    serve_dashboard(config, read_only=read_only, writable=writable)


def serve_dashboard(config: Config, *, read_only: bool = False, writable: bool = False) -> None:
    """Serve until interrupted, after a line with the address, which logs the local user in."""
    server, mode = config.settings.server, config.settings.access.mode
    writable_here = server_allows_writes(server.host, mode, read_only=read_only, writable=writable)
    if server.migrate:
        upgrade_if_older(config.database_url)
    store = open_store_to_read(config) if read_only else open_store_to_write(config, durable=True)
    local_token = _local_token(config) if has_local_user(server.host, mode) else ""
    warnings = list_network_warnings(server.host, config.settings, read_only=read_only)

    def ready(url: str) -> None:
        if local_token:
            kept.enter_context(keep_token_while_serving(config.state_folder, url, local_token))
        click.echo(f"serving {url}{'?token=' if local_token else ''}{local_token} (Ctrl-C ends it)")
        for warning in warnings:
            click.echo(warning)

    with (
        closing(store),
        ExitStack() as kept,
        _run_judge_worker(config, writable_here and server.worker) as worker,
    ):
        serve(
            store,
            server.host,
            server.port,
            local_token=local_token,
            read_only=not writable_here,
            settings=config.settings,
            secrets=config.secrets,
            on_tick=worker.ensure_running,
            on_worker_start=worker.forget_child_in_fork,
            on_ready=ready,
        )


def _local_token(config: Config) -> str:
    token = config.secrets.local_token.get_secret_value()
    if token and not LOCAL_TOKEN_PATTERN.fullmatch(token):
        raise PerfciError(
            "PERFCI_LOCAL_TOKEN was expected to hold at least 16 letters and digits: "
            "`openssl rand -hex 24` prints some."
        )
    return token or make_token("l").text


@contextmanager
def _run_judge_worker(config: Config, enabled: bool) -> Iterator[SupervisedProcess]:
    """A judge worker in a child process that starts and ends with the server."""
    if enabled and config.settings.app.id:
        build_github_app(config)  # fails here, not in the log of the child, if the settings are wrong
    file = config_file_of_command_line()
    arguments = ["judge-worker", *(["--config", str(file.absolute())] if file else [])]
    worker = SupervisedProcess(arguments if enabled else [], {"PERFCI_DB": config.database_url}, config.root)
    try:
        yield worker
    finally:
        worker.stop()


def override_server_settings(config: Config, overrides: dict[str, object]) -> Config:
    """A configuration with some keys of [server] replaced."""
    server = config.settings.server.model_copy(update=overrides)
    return config.model_copy(update={"settings": config.settings.model_copy(update={"server": server})})
