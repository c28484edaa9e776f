"""``perfci db``: the database as a thing to look after."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.context import config_here, write_json
from perfci.cli.options import global_options, json_option
from perfci.store import backup, check, restore, upgrade


@click.group("db")
@global_options
def command() -> None:
    """Upgrade, check, back up or restore the database."""


@command.command("upgrade")
@global_options
def upgrade_command() -> None:
    """Bring an older database to this version's schema."""
    config = config_here()
    upgrade(config.database_url)
    click.echo(f"{config.database_url} has the current schema")


@command.command("check")
@json_option
@global_options
def check_command(json_file: str | None) -> int:
    """Verify what must hold in every database; exit 1 when something does not."""
    config = config_here()
    problems = check(config.database_url)
    if json_file:
        write_json(json_file, problems)
    for problem in problems:
        click.echo(problem, err=True)
    if not problems and json_file != "-":
        click.echo("everything holds")
    return 1 if problems else 0


@command.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@global_options
def backup_command(file: Path) -> None:
    """Write a consistent copy to FILE while others go on reading and writing.

    A SQLite database becomes a file of its own kind; FILE.gz, and any copy of PostgreSQL, can be restored into both.
    """
    config = config_here()
    backup(config.database_url, file)
    click.echo(f"{config.database_url} is copied to {file}")


@command.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@global_options
def restore_command(file: Path) -> None:
    """Fill an absent or empty database from FILE, which `perfci db backup` wrote."""
    config = config_here()
    restore(config.database_url, file)
    click.echo(f"{config.database_url} holds what {file} holds")
