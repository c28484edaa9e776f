"""``perfci upload``: send result files to a server, now or with a later flush."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.shared.context import current_config, write_json
from perfci.cli.shared.flush_report import exit_code, print_report, serialize_report, server_option
from perfci.cli.shared.options import global_options, json_option
from perfci.service.uploads.send_runs import read_runs, resolve_server, upload_runs


@click.command("upload")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@server_option
@json_option
@global_options
def command(paths: tuple[Path, ...], server: str, json_file: str | None) -> int:
    """Spool results on disk, then send them; a run leaves the spool once the server has stored it.

    The token comes from PERFCI_TOKEN; a job of GitHub Actions with `id-token: write` needs none. Exit code 0
    if everything is stored there, 1 if a run was rejected or is pending, 2 usage.
    """
    config = current_config()
    address = resolve_server(config, server)
    runs = (
        run
        for path in paths
        for run in read_runs(path, config.project, lambda text: click.echo(f"  {text}", err=True))
    )
    report = upload_runs(config, address, runs)
    print_report(report, address, err=json_file == "-")
    if json_file:
        write_json(json_file, serialize_report(report))
    return exit_code(report)
