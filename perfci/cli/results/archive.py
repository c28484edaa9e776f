"""``perfci archive``: archive series that nobody looks at any more, list them, and bring them back."""

from __future__ import annotations

from contextlib import closing

import click

from perfci.cli.shared.accounts_backend import backend_option, build_validated_request
from perfci.cli.shared.command_output import write_list
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config, find_configured_server
from perfci.cli.shared.store_and_machine_lock import local_user_audit_context, open_store_to_write
from perfci.config import Config
from perfci.model import PerfciError
from perfci.net.api_schemas.archived_series import ArchiveChange, ArchivedSeriesShape
from perfci.number_format import format_count
from perfci.service.archive_series import ArchiveTarget, serialize_archived_series, set_archived
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.service.uploads.send_to_server import build_api_client
from perfci.store.projects import find_project
from perfci.store.series_archive import list_archived_series

reason_option = click.option("--reason", default="", metavar="TEXT", help="why, for everybody to read")
undo_option = click.option("--undo", is_flag=True, help="bring them back")


@click.group("archive")
@global_options
def archive_group() -> None:
    """Archive series: they leave the overview, lists, counts and incidents; their results stay."""


@archive_group.command("series")
@click.argument("series", metavar="ID")
@reason_option
@undo_option
@backend_option
@global_options
def archive_series_command(series: str, reason: str, undo: bool, server: str) -> None:
    """Archive one series by its ID (the API and `perfci export` name them)."""
    _set_archived(ArchiveTarget(series=series), reason, undo, server)


@archive_group.command("benchmark")
@click.argument("benchmark", metavar="NAME")
@reason_option
@undo_option
@backend_option
@global_options
def archive_benchmark_command(benchmark: str, reason: str, undo: bool, server: str) -> None:
    """Archive all series of the benchmark NAME."""
    _set_archived(ArchiveTarget(benchmark=benchmark), reason, undo, server)


@archive_group.command("machine")
@click.argument("machine", metavar="LABEL")
@reason_option
@undo_option
@backend_option
@global_options
def archive_machine_command(machine: str, reason: str, undo: bool, server: str) -> None:
    """Archive all series of the machine LABEL, as pages show it."""
    _set_archived(ArchiveTarget(machine=machine), reason, undo, server)


@archive_group.command("list")
@backend_option
@json_option
@global_options
def list_command(server: str, json_file: str | None) -> None:
    """List what was archived by hand, by whom and why."""
    config, address = current_config(), find_configured_server(server)
    if address:
        with closing(build_api_client(config, address)) as client:
            archived = list(client.list_archived_series(config.project))
    else:
        with closing(open_store_to_write(config)) as store, store.read() as tx:
            project = find_project(tx, config.project)
            records = list_archived_series(tx, project.id) if project else []
            archived = [serialize_archived_series(record) for record in records]
    values = [item.model_dump(mode="json") for item in archived]
    write_list(json_file, values, list(map(_format_archived, archived)), "nothing is archived by hand")


def _format_archived(item: ArchivedSeriesShape) -> str:
    parameters = ", ".join(f"{name}={value}" for name, value in item.parameters.items())
    place = " · ".join(filter(None, (item.machine, item.variant)))
    name = f"{item.benchmark}({parameters})" if parameters else item.benchmark
    who = f"{item.archived_by}, {item.archived_at:%F}"
    return f"{item.series[:12]}  {name} {item.metric}, {place}: {item.reason} ({who})"


def _set_archived(target: ArchiveTarget, reason: str, undo: bool, server: str) -> None:
    if not undo and not reason.strip():
        raise PerfciError("--reason is needed: whoever misses it later will ask why.")
    config, address = current_config(), find_configured_server(server)
    if address:
        changed = _change_on_server(config, address, target, reason, undo)
    else:
        changed = _change_in_store(config, target, None if undo else reason)
    click.echo(f"{target}: {format_count(changed, 'series', 'series')} {'back' if undo else 'archived'}")


def _change_in_store(config: Config, target: ArchiveTarget, reason: str | None) -> int:
    with closing(open_store_to_write(config)) as store:
        with store.begin() as tx:
            project = find_project(tx, config.project)
            if project is None:
                raise PerfciError(f"There is no project {config.project} in this store.")
            changed = set_archived(tx, local_user_audit_context(), project, target, reason)
        evaluate_and_reconcile(store, config)
    return changed


def _change_on_server(config: Config, address: str, target: ArchiveTarget, reason: str, undo: bool) -> int:
    change = build_validated_request(
        ArchiveChange,
        series=target.series or None,
        benchmark=target.benchmark or None,
        machine=target.machine or None,
        archived=not undo,
        reason=reason,
    )
    with closing(build_api_client(config, address)) as client:
        return client.set_archived(config.project, change).series
