"""``perfci alerts quarantine``: benchmarks that are watched, and of which nobody is told."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from perfci.cli.shared.backend import parse_request
from perfci.cli.shared.context import write_list
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.project_transaction import local_audit_context, read_from_project, write_to_project
from perfci.model import PerfciError
from perfci.net.shapes.incidents import MuteChange
from perfci.service.incidents.mute_benchmarks import mute_benchmark
from perfci.store.incidents.mutes import load_mutes

DEFAULT_DAYS = 30

metric_option = click.option(
    "--metric", default="", metavar="NAME", help="only this metric  [default: all of them]"
)


@click.group("quarantine")
@global_options
def command() -> None:
    """Show which benchmarks are watched and told to nobody, put one in, or let it out."""


@command.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """List what is in quarantine: until when, why, and who put it there."""
    found = read_from_project(lambda tx, project: load_mutes(tx, project.id, datetime.now(UTC)))
    lines = [
        f"{f'{one.benchmark} {one.metric}'.strip()}  until {one.expires_at:%Y-%m-%d}  {one.reason}  ({one.actor})"
        for one in found
    ]
    write_list(json_file, found, lines, "no benchmark is in quarantine")


@command.command("add")
@click.argument("benchmark")
@metric_option
@click.option("--days", type=click.IntRange(1, 365), default=DEFAULT_DAYS, show_default=True)
@click.option("--reason", default="", help="why")
@global_options
def add_command(benchmark: str, metric: str, days: int, reason: str) -> None:
    """Tell nobody of a benchmark for some days; its incidents are listed as monitored."""
    asked = parse_request(MuteChange, benchmark=benchmark, metric=metric, days=days, reason=reason)
    write_to_project(
        lambda tx, project: mute_benchmark(
            tx,
            project,
            asked.benchmark,
            asked.metric,
            local_audit_context(),
            days=asked.days,
            reason=asked.reason,
        )
    )
    click.echo(f"{benchmark} is in quarantine for {days} days")


@command.command("remove")
@click.argument("benchmark")
@metric_option
@global_options
def remove_command(benchmark: str, metric: str) -> None:
    """Let a benchmark out, which is then not put in again by itself for 30 days."""
    if not write_to_project(
        lambda tx, project: mute_benchmark(tx, project, benchmark, metric, local_audit_context(), days=0)
    ):
        raise PerfciError(f"{benchmark} is not in quarantine: perfci alerts quarantine list shows what is.")
    click.echo(f"{benchmark} is out of quarantine")
