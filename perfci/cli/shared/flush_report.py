"""What ``upload``, ``flush`` and ``run --server`` say of what was sent."""

from __future__ import annotations

import click

from perfci.net.spool_sender import Flushed
from perfci.report.number_format import counting

server_option = click.option("--server", metavar="URL", default="", help="where to  [default: [client] server]")


def tell(flushed: Flushed, server: str, *, err: bool = False) -> None:
    """One line of what happened, then what a person should know."""
    parts = [f"{counting(len(flushed.sent), 'run')} sent to {server}"]
    parts += [f"{len(flushed.known)} known there"] if flushed.known else []
    parts += [f"{len(flushed.refused)} refused"] if flushed.refused else []
    parts += [f"{flushed.waiting} still waiting (`perfci flush` tries again)"] if flushed.waiting else []
    click.echo(", ".join(parts), err=err)
    for sentence in (*flushed.refused, *flushed.told):
        click.echo(f"  {sentence}", err=True)


def exit_code(flushed: Flushed) -> int:
    return 1 if flushed.refused or flushed.waiting else 0


def fields(flushed: Flushed) -> dict[str, object]:
    receipts = {"sent": flushed.sent, "known": flushed.known}
    return {name: [one.model_dump() for one in some] for name, some in receipts.items()} | {
        "refused": flushed.refused,
        "waiting": flushed.waiting,
        "told": flushed.told,
    }
