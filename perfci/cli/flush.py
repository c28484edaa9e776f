"""``perfci flush``: send the runs that earlier jobs spooled."""

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
    """Send spooled results to their servers.

    Exit code 0 if nothing is pending any more, 1 if a run was rejected or is pending, 2 usage.
    """
    config = current_config()
    servers = [server.rstrip("/")] if server else open_spool(config).list_servers()
    reports = {address: send_spooled_runs(config, address) for address in servers}
    for address, report in reports.items():
        print_report(report, address, err=json_file == "-")
    if not servers:
        click.echo("nothing is pending", err=json_file == "-")
    if json_file:
        write_json(json_file, {address: serialize_report(report) for address, report in reports.items()})
    return max((exit_code(report) for report in reports.values()), default=0)
