"""The result of sending spooled runs, as ``upload``, ``flush`` and ``run --server`` report it."""

from __future__ import annotations

import click

from perfci.net.spool_sender import FlushReport
from perfci.report.number_format import format_count

server_option = click.option(
    "--server", metavar="URL", default="", help="server URL  [default: [client] server]"
)


def print_report(report: FlushReport, server: str, *, err: bool = False) -> None:
    """Print a summary line, then rejections and messages of the server."""
    parts = [f"{format_count(len(report.sent), 'run')} sent to {server}"]
    parts += [f"{len(report.already_stored)} already stored"] if report.already_stored else []
    parts += [f"{len(report.rejected)} rejected"] if report.rejected else []
    parts += [f"{report.waiting} pending (`perfci flush` tries again)"] if report.waiting else []
    click.echo(", ".join(parts), err=err)
    for sentence in (*report.rejected, *report.messages):
        click.echo(f"  {sentence}", err=True)


def exit_code(report: FlushReport) -> int:
    """1 if a run was rejected or is still pending."""
    return 1 if report.rejected or report.waiting else 0


def serialize_report(report: FlushReport) -> dict[str, object]:
    """The report as plain JSON values."""
    return {
        "sent": [receipt.model_dump() for receipt in report.sent],
        "already_stored": [receipt.model_dump() for receipt in report.already_stored],
        "rejected": report.rejected,
        "pending": report.waiting,
        "messages": report.messages,
    }
