"""``perfci incidents destination``: where notifications about incidents are sent."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import click
from sqlalchemy.orm import Session

from perfci.cli.shared.command_output import write_list
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import (
    local_user_audit_context,
    run_read_transaction,
    run_write_transaction,
)
from perfci.model import IncidentState, PerfciError
from perfci.service.notify.destination_encryption import decrypt_destination
from perfci.service.notify.manage_destinations import (
    ADDRESS_CHECKS,
    delete_destination,
    save_destination,
    send_test_message,
)
from perfci.service.notify.senders import build_sender_config
from perfci.store.jobs.notification_destinations import Destination, find_destination, load_destinations
from perfci.store.projects import Project


@click.group("destination")
@global_options
def destination_group() -> None:
    """Manage destinations for incident notifications."""


@destination_group.command("set")
@click.argument("name")
@click.option("--kind", type=click.Choice(list(ADDRESS_CHECKS)), required=True)
@click.option("--address", required=True, help="a URL, a mail address, or owner/name of a repository")
@click.option(
    "--secret-stdin", is_flag=True, help="read the secret from standard input: no list of processes shows it"
)
@click.option("--state", "states", type=click.Choice([state.value for state in IncidentState]), multiple=True)
@click.option("--bench", "benchmarks", multiple=True, metavar="GLOB", help="only benchmarks like train.*")
@click.option("--quiet", metavar="FROM-TO", help="hours without messages, such as 22:00-07:00")
@click.option("--digest", default="", metavar="daily@HH:MM", help="one daily summary message")
@click.option("--tz", default="UTC", show_default=True, help="the time zone of --quiet and --digest")
@click.option("--urgent", is_flag=True, help="send during quiet hours as well")
@click.option("--off", is_flag=True, help="keep it, but send nothing there")
@global_options
def set_command(name: str, kind: str, address: str, secret_stdin: bool, **settings: Any) -> None:
    """Add a destination or replace the one with this name; its secret stays unless a new one is read."""
    begin, _, end = (settings["quiet"] or "").partition("-")
    routes = {
        "states": list(settings["states"]),
        "benchmarks": list(settings["benchmarks"]),
        "urgent": settings["urgent"],
    }
    destination = Destination(
        name=name,
        kind=kind,
        address=address,
        routes={key: value for key, value in routes.items() if value},
        quiet={"tz": settings["tz"]} | ({"from": begin, "to": end} if settings["quiet"] else {}),
        digest=settings["digest"],
        enabled=not settings["off"],
    )
    secret = sys.stdin.readline().strip() if secret_stdin else None
    new = run_write_transaction(
        lambda tx, project: save_destination(
            tx,
            project,
            destination,
            local_user_audit_context(),
            secret=secret,
            secret_key=_secret_key(),
        )
    )
    verb = "added" if new else "changed"
    click.echo(f"{name}: {verb}; try it with `perfci incidents destination test {name}`")


@destination_group.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """List the destinations; no secret is shown."""
    destinations = run_read_transaction(
        lambda tx, project: [
            decrypt_destination(tx, destination, _secret_key())
            for destination in load_destinations(tx, project.id)
        ]
    )
    lines = [
        f"{destination.name}  {destination.kind}  {destination.address}"
        + ("" if destination.enabled else "  off")
        for destination in destinations
    ]
    empty_message = "no destinations: add one with `perfci incidents destination set`"
    write_list(json_file, [_serialize_destination(each) for each in destinations], lines, empty_message)


@destination_group.command("remove")
@click.argument("name")
@global_options
def remove_command(name: str) -> None:
    """Remove a destination and its pending notifications."""
    if not run_write_transaction(
        lambda tx, project: delete_destination(tx, project, name, local_user_audit_context())
    ):
        raise _unknown_destination(name)
    click.echo(f"{name}: removed")


@destination_group.command("test")
@click.argument("name")
@global_options
def test_command(name: str) -> int:
    """Send a test notification; exit 1 if it was not delivered."""
    config = current_config()
    destination = run_read_transaction(lambda tx, project: _find_decrypted(tx, project, name))
    senders = build_sender_config(config.settings, config.secrets)
    if problem := send_test_message(config.project, destination, senders, datetime.now(UTC)):
        click.echo(problem, err=True)
        return 1
    click.echo(f"{name}: sent")
    return 0


def _find_decrypted(tx: Session, project: Project, name: str) -> Destination:
    destination = find_destination(tx, project.id, name)
    if destination is None:
        raise _unknown_destination(name)
    return decrypt_destination(tx, destination, _secret_key())


def _secret_key() -> str:
    return current_config().secrets.secret_key.get_secret_value()


def _serialize_destination(destination: Destination) -> dict[str, object]:
    """All of a destination but its secret."""
    return {
        "name": destination.name,
        "kind": destination.kind,
        "address": destination.address,
        "routes": destination.routes,
        "quiet": destination.quiet,
        "digest": destination.digest,
        "enabled": destination.enabled,
    }


def _unknown_destination(name: str) -> PerfciError:
    return PerfciError(f"There is no destination {name}: see `perfci incidents destination list`.")
