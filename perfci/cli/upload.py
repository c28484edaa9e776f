"""``perfci upload``: result files reach a server, now or with a later flush."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.shared.context import config_here, write_json
from perfci.cli.shared.flush_report import exit_code, fields, server_option, tell
from perfci.cli.shared.options import global_options, json_option
from perfci.service.uploads.send_runs import runs_in, server_of, upload


@click.command("upload")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@server_option
@json_option
@global_options
def command(paths: tuple[Path, ...], server: str, json_file: str | None) -> int:
    """Keep results on disk, then send them; nothing is forgotten before the server has stored it.

    The token comes from PERFCI_TOKEN; a job of GitHub Actions with `id-token: write` needs none. Exit code 0 when
    everything is stored there, 1 when something was refused or still waits, 2 usage.
    """
    config = config_here()
    address = server_of(config, server)
    runs = (
        run for path in paths for run in runs_in(path, config.project, lambda text: click.echo(f"  {text}", err=True))
    )
    flushed = upload(config, address, runs)
    tell(flushed, address, err=json_file == "-")
    if json_file:
        write_json(json_file, fields(flushed))
    return exit_code(flushed)
