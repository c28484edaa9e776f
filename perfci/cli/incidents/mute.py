"""``perfci alerts quarantine``: benchmarks that are watched, and of which nobody is told."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from perfci.cli.shared.backend import said
from perfci.cli.shared.context import write_list
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.project_transaction import by_me, read, written
from perfci.model import PerfciError
from perfci.net.shapes.incidents import NewSuspension
from perfci.service.incidents.mute_benchmarks import quarantine
from perfci.store.incidents.mutes import suspensions

DAYS = 30

metric_option = click.option("--metric", default="", metavar="NAME", help="only this metric  [default: all of them]")


@click.group("quarantine")
@global_options
def command() -> None:
    """Show which benchmarks are watched and told to nobody, put one in, or let it out."""


@command.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """List what is in quarantine: until when, why, and who put it there."""
    found = read(lambda tx, project: suspensions(tx, project.id, datetime.now(UTC)))
    lines = [
        f"{f'{one.benchmark} {one.metric}'.strip()}  until {one.expires_at:%Y-%m-%d}  {one.reason}  ({one.actor})"
        for one in found
    ]
    write_list(json_file, found, lines, "no benchmark is in quarantine")


@command.command("add")
@click.argument("benchmark")
@metric_option
@click.option("--days", type=click.IntRange(1, 365), default=DAYS, show_default=True)
@click.option("--reason", default="", help="why")
@global_options
def add_command(benchmark: str, metric: str, days: int, reason: str) -> None:
    """Tell nobody of a benchmark for some days; its incidents are listed as monitored."""
    asked = said(NewSuspension, benchmark=benchmark, metric=metric, days=days, reason=reason)
    written(
        lambda tx, project: quarantine(
            tx, project, asked.benchmark, asked.metric, by_me(), days=asked.days, reason=asked.reason
        )
    )
    click.echo(f"{benchmark} is in quarantine for {days} days")


@command.command("remove")
@click.argument("benchmark")
@metric_option
@global_options
def remove_command(benchmark: str, metric: str) -> None:
    """Let a benchmark out, which is then not put in again by itself for 30 days."""
    if not written(lambda tx, project: quarantine(tx, project, benchmark, metric, by_me(), days=0)):
        raise PerfciError(f"{benchmark} is not in quarantine: perfci alerts quarantine list shows what is.")
    click.echo(f"{benchmark} is out of quarantine")
