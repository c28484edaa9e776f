"""``perfci export``: what the store holds, for spreadsheets and other tools."""

from __future__ import annotations

import sys
from contextlib import closing

import click

from perfci.cli.context import config_here, store_to_read
from perfci.cli.options import global_options
from perfci.formats.csv import export


@click.command("export")
@click.option("--format", "format_name", type=click.Choice(["csv"]), default="csv", show_default=True)
@click.option("--samples", is_flag=True, help="one row per raw sample")
@global_options
def command(format_name: str, samples: bool) -> None:
    """Write one row per commit, benchmark, parameters, metric, machine and variant to stdout."""
    config = config_here()
    with closing(store_to_read(config)) as store, store.read() as tx:
        for line in export(tx, config.project, samples=samples):
            sys.stdout.write(line)
