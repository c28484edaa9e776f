"""``perfci incidents mute``: list, add and remove muted benchmarks."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from perfci.cli.shared.accounts_backend import build_validated_request
from perfci.cli.shared.command_output import write_list
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.store_and_machine_lock import (
    local_user_audit_context,
    run_read_transaction,
    run_write_transaction,
)
from perfci.model import PerfciError
from perfci.net.api_schemas.muted_benchmarks import MuteChange
from perfci.service.incidents.mute_benchmarks import set_benchmark_mute
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_mutes

DEFAULT_DAYS = 30
"""Days a benchmark stays muted unless ``--days`` is given."""

metric_option = click.option(
    "--metric", default="", metavar="NAME", help="only this metric  [default: all of them]"
)


@click.group("mute")
@global_options
def mute_group() -> None:
    """Manage muted benchmarks: measured and judged, but without notifications."""


@mute_group.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """List muted benchmarks with end, reason and author."""
    mutes = run_read_transaction(lambda tx, project: load_mutes(tx, project.id, datetime.now(UTC)))
    lines = [
        f"{f'{mute.benchmark} {mute.metric}'.strip()}  until {mute.expires_at:%Y-%m-%d}"
        f"  {mute.reason}  ({mute.actor})"
        for mute in mutes
    ]
    write_list(json_file, mutes, lines, "no benchmark is muted")


@mute_group.command("add")
@click.argument("benchmark")
@metric_option
@click.option("--days", type=click.IntRange(1, 365), default=DEFAULT_DAYS, show_default=True)
@click.option("--reason", default="", help="why")
@global_options
def add_command(benchmark: str, metric: str, days: int, reason: str) -> None:
    """Mute a benchmark: no notifications, incidents are listed as monitored."""
    change = build_validated_request(MuteChange, benchmark=benchmark, metric=metric, days=days, reason=reason)
    run_write_transaction(
        lambda tx, project: set_benchmark_mute(
            tx,
            project,
            change.benchmark,
            change.metric,
            local_user_audit_context(),
            days=change.days,
            reason=change.reason,
        )
    )
    click.echo(f"{benchmark} is muted for {days} days")


@mute_group.command("remove")
@click.argument("benchmark")
@metric_option
@global_options
def remove_command(benchmark: str, metric: str) -> None:
    """Unmute a benchmark; it is not muted automatically for 30 days."""
    if not run_write_transaction(
        lambda tx, project: set_benchmark_mute(
            tx, project, benchmark, metric, local_user_audit_context(), days=0
        )
    ):
        raise PerfciError(f"{benchmark} is not muted: see `perfci incidents mute list`.")
    click.echo(f"{benchmark} is no longer muted")
