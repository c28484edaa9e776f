"""``perfci flush``: what an earlier job could not send goes out now."""

from __future__ import annotations

import click

from perfci.cli.shared.context import current_config, write_json
from perfci.cli.shared.flush_report import exit_code, print_report, serialize_report, server_option
from perfci.cli.shared.options import global_options, json_option
from perfci.service.uploads.send_runs import open_spool, send_spooled_runs


@click.command("flush")
@server_option
@json_option
@global_options
def command(server: str, json_file: str | None) -> int:
    """Send what waits in the spool, to the servers it was meant for.

    Exit code 0 when nothing waits any more, 1 when something was refused or still waits, 2 usage.
    """
    config = current_config()
    servers = [server.rstrip("/")] if server else open_spool(config).list_servers()
    flushed = {address: send_spooled_runs(config, address) for address in servers}
    for address, outcome in flushed.items():
        print_report(outcome, address, err=json_file == "-")
    if not servers:
        click.echo("nothing waits to be sent", err=json_file == "-")
    if json_file:
        write_json(json_file, {address: serialize_report(outcome) for address, outcome in flushed.items()})
    return max((exit_code(outcome) for outcome in flushed.values()), default=0)
