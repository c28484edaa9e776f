"""What ``upload``, ``flush`` and ``run --server`` say of what was sent."""

from __future__ import annotations

import click

from perfci.net.spool_sender import FlushReport
from perfci.report.number_format import format_count

server_option = click.option(
    "--server", metavar="URL", default="", help="where to  [default: [client] server]"
)


def print_report(report: FlushReport, server: str, *, err: bool = False) -> None:
    """One line of what happened, then what a person should know."""
    parts = [f"{format_count(len(report.sent), 'run')} sent to {server}"]
    parts += [f"{len(report.already_stored)} known there"] if report.already_stored else []
    parts += [f"{len(report.rejected)} refused"] if report.rejected else []
    parts += [f"{report.waiting} still waiting (`perfci flush` tries again)"] if report.waiting else []
    click.echo(", ".join(parts), err=err)
    for sentence in (*report.rejected, *report.messages):
        click.echo(f"  {sentence}", err=True)


def exit_code(report: FlushReport) -> int:
    return 1 if report.rejected or report.waiting else 0


def serialize_report(report: FlushReport) -> dict[str, object]:
    receipts = {"sent": report.sent, "known": report.already_stored}
    return {name: [one.model_dump() for one in some] for name, some in receipts.items()} | {
        "refused": report.rejected,
        "waiting": report.waiting,
        "told": report.messages,
    }
