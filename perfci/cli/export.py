"""``perfci export``: write stored histories for spreadsheets and other tools."""

from __future__ import annotations

import sys
from contextlib import closing

import click

from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import open_store_to_read
from perfci.model import PerfciError
from perfci.service.export_history import EXPORT_FORMATS, export_history


@click.command("export")
@click.option("--format", "format_name", type=click.Choice(EXPORT_FORMATS), default="csv", show_default=True)
@click.option("--samples", is_flag=True, help="CSV: one row per raw sample")
@global_options
def export_command(format_name: str, samples: bool) -> None:
    """Write the histories to stdout: CSV, run documents, an asv tar or PyTorch records."""
    if samples and format_name != "csv":
        raise PerfciError(f"--samples is for CSV: {format_name} holds raw samples anyway")
    config = current_config()
    with closing(open_store_to_read(config)) as store:
        for chunk in export_history(
            store,
            config.project,
            format_name,
            lambda line: click.echo(f"  {line}", err=True),
            samples=samples,
        ):
            # Bytes: one of the formats is a tar archive.
            sys.stdout.buffer.write(chunk)
    sys.stdout.flush()
