"""``perfci db``: upgrade, check, back up, restore, prune or partition the database."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option, parse_days
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import open_store_to_write
from perfci.history.load_series_points import find_wrong_series_points
from perfci.model import PerfciError
from perfci.service.partition_samples import drop_old_partitions
from perfci.service.prune_samples import prune_raw_samples
from perfci.store import backup, check_integrity, open_store, restore, upgrade
from perfci.store.maintenance.partition_processes import RESULTS_PER_PARTITION, partition_processes


@click.group("db")
@global_options
def db_group() -> None:
    """Upgrade, check, back up, restore, prune or partition the database."""


@db_group.command("upgrade")
@global_options
def upgrade_command() -> None:
    """Bring an older database to this version's schema."""
    config = current_config()
    upgrade(config.database_url)
    click.echo(f"{config.database_url} has the current schema")


@db_group.command("check")
@json_option
@global_options
def check_command(json_file: str | None) -> int:
    """Verify the consistency rules of the database; exit 1 if one is broken."""
    config = current_config()
    problems = check_integrity(config.database_url)
    with closing(open_store(config.database_url, create=False)) as store, store.read() as tx:
        problems += find_wrong_series_points(tx)
    if json_file:
        write_json(json_file, problems)
    for problem in problems:
        click.echo(problem, err=True)
    if not problems and json_file != "-":
        click.echo("all checks passed")
    return 1 if problems else 0


@db_group.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@global_options
def backup_command(file: Path) -> None:
    """Write a consistent copy to FILE while other processes read and write.

    A copy of SQLite is a SQLite file. FILE.gz, and any copy of PostgreSQL, can be restored into both.
    """
    config = current_config()
    backup(config.database_url, file)
    click.echo(f"{config.database_url} is copied to {file}")


@db_group.command("restore")
@click.argument("file", type=click.Path(path_type=Path))
@global_options
def restore_command(file: Path) -> None:
    """Fill an absent or empty database from FILE, which `perfci db backup` wrote."""
    config = current_config()
    restore(config.database_url, file)
    click.echo(f"{config.database_url} is restored from {file}")


@db_group.command("partition")
@click.option(
    "--results",
    type=click.IntRange(min=1),
    default=RESULTS_PER_PARTITION,
    show_default=True,
    metavar="N",
    help="results whose samples share a partition",
)
@global_options
def partition_command(results: int) -> None:
    """Divide the samples of a PostgreSQL database into partitions, of which old ones can be dropped at once.

    No row is copied, but the table is read once and locked meanwhile: stop the server, or let uploads wait.
    """
    with closing(open_store_to_write(current_config())) as store, store.begin() as tx:
        is_new = partition_processes(tx, results)
    click.echo("samples are in partitions now" if is_new else "samples are in partitions already")


@db_group.command("drop-partitions")
@click.option("--older-than", "age", metavar="DAYSd", required=True, help="such as 400d")
@click.option("--dry-run", is_flag=True, help="only count")
@json_option
@global_options
def drop_partitions_command(age: str, dry_run: bool, json_file: str | None) -> None:
    """Drop partitions of samples that are older than a time, and give their disk space back.

    Levels stay, so that histories and their verdicts do. Samples that verdicts rest on, and comparisons, are
    kept.
    """
    days = parse_days(age)
    if days is None:
        raise PerfciError(f"--older-than takes days such as 400d, found {age!r}")
    with closing(open_store_to_write(current_config())) as store:
        dropped = drop_old_partitions(store, datetime.now(UTC) - timedelta(days=days), dry_run=dry_run)
    if json_file:
        write_json(json_file, dropped)
    if json_file != "-":
        done = "would be dropped" if dry_run else "dropped"
        megabytes = sum(partition.bytes for partition in dropped) / 1e6
        kept = sum(partition.kept_processes for partition in dropped)
        click.echo(f"{len(dropped)} partitions {done}, {megabytes:,.0f} MB; {kept} processes kept")


@db_group.command("prune")
@click.option("--raw-older-than", "age", metavar="DAYSd", required=True, help="such as 90d")
@click.option("--dry-run", is_flag=True, help="only count")
@json_option
@global_options
def prune_samples_command(age: str, dry_run: bool, json_file: str | None) -> None:
    """Reduce old raw samples to one level per process, and quartiles.

    Verdicts on histories stay the same. Samples that verdicts rest on, comparisons and differing counts are
    kept. Of profiles of that age the files go, traces among them; what they explained stays.
    """
    days, now = parse_days(age), datetime.now(UTC)
    if days is None:
        raise PerfciError(f"--raw-older-than takes days such as 90d, found {age!r}")
    with closing(open_store_to_write(current_config())) as store:
        pruned = prune_raw_samples(store, now - timedelta(days=days), now=now, dry_run=dry_run)
    if json_file:
        write_json(json_file, pruned)
    if json_file != "-":
        done = "would be pruned" if dry_run else "pruned"
        click.echo(f"{pruned.processes} processes {done}, {pruned.samples} samples less")
        if pruned.profile_files:
            verb = "would be deleted" if dry_run else "deleted"
            click.echo(f"{pruned.profile_files} files of profiles {verb}")
