"""``perfci invalidate``: mark runs and points as invalid, list such marks, and take them back."""

from __future__ import annotations

from contextlib import closing

import click

from perfci.cli.shared.accounts_backend import backend_option
from perfci.cli.shared.command_output import write_list
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config, find_configured_server
from perfci.cli.shared.store_and_machine_lock import local_user_audit_context, open_store_to_write
from perfci.config import Config
from perfci.model import PerfciError
from perfci.net.api_client import ApiClient, ApiError
from perfci.net.api_schemas.invalid_marks import InvalidMarkShape
from perfci.service.invalidate_results import (
    MarkTarget,
    judge_marked_runs_again,
    list_marks,
    set_mark,
)
from perfci.service.uploads.send_to_server import build_api_client
from perfci.store.projects import find_project

reason_option = click.option("--reason", default="", metavar="TEXT", help="why, for everybody to read")
undo_option = click.option("--undo", is_flag=True, help="take the mark back: it is judged again")


@click.group("invalidate")
@global_options
def invalidate_group() -> None:
    """Mark results as invalid: they are kept and shown, and nothing is derived from them."""


@invalidate_group.command("run")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@reason_option
@undo_option
@backend_option
@global_options
def invalidate_run_command(keys: tuple[str, ...], reason: str, undo: bool, server: str) -> None:
    """Mark whole runs by their keys (perfci show --json names them)."""
    _set_marks([MarkTarget(run_key=key) for key in keys], reason, undo, server)


@invalidate_group.command("point")
@click.argument("series")
@click.argument("commit")
@reason_option
@undo_option
@backend_option
@global_options
def invalidate_point_command(series: str, commit: str, reason: str, undo: bool, server: str) -> None:
    """Mark what one SERIES, by its id, came to at one COMMIT."""
    _set_marks([MarkTarget(series=series, sha=commit)], reason, undo, server)


@invalidate_group.command("list")
@backend_option
@json_option
@global_options
def list_command(server: str, json_file: str | None) -> None:
    """List what is marked, by whom and why."""
    config, address = current_config(), find_configured_server(server)
    if address:
        with closing(build_api_client(config, address)) as client:
            marks = list(client.list_invalid_marks(config.project))
    else:
        with closing(open_store_to_write(config)) as store, store.read() as tx:
            project = find_project(tx, config.project)
            marks = list_marks(tx, project) if project else []
    values = [mark.model_dump(mode="json") for mark in marks]
    write_list(json_file, values, [_format_mark(mark) for mark in marks], "nothing is marked invalid")


def _format_mark(mark: InvalidMarkShape) -> str:
    what = f"series {mark.series} of " if mark.series else ""
    return f"{mark.commit[:10]}  {what}run {mark.run}: {mark.reason} ({mark.marked_by}, {mark.marked_at:%F})"


def _set_marks(targets: list[MarkTarget], reason: str, undo: bool, server: str) -> None:
    if not undo and not reason.strip():
        raise PerfciError("--reason is needed: whoever looks at the history later will ask why.")
    config, address, why = current_config(), find_configured_server(server), None if undo else reason
    if address:
        with closing(build_api_client(config, address)) as client:
            for target in targets:
                _mark_on_server(client, config.project, target, why)
    else:
        _mark_in_store(config, targets, why)
    for target in targets:
        click.echo(f"{target}: {'valid again' if undo else 'marked invalid'}")


def _mark_in_store(config: Config, targets: list[MarkTarget], reason: str | None) -> None:
    with closing(open_store_to_write(config)) as store:
        run_keys: list[str] = []
        with store.begin() as tx:
            project = find_project(tx, config.project)
            if project is None:
                raise PerfciError(f"There is no project {config.project} in this store.")
            for target in targets:
                keys = set_mark(tx, local_user_audit_context(), project, target, reason)
                if not keys:
                    raise target.build_missing_error(project.slug)
                run_keys += keys
        judge_marked_runs_again(store, config, run_keys)


def _mark_on_server(client: ApiClient, project: str, target: MarkTarget, reason: str | None) -> None:
    try:
        if target.run_key:
            client.set_run_mark(project, target.run_key, reason)
        else:
            client.set_point_mark(project, target.series, target.sha, reason)
    except ApiError as refused:
        if refused.status == 404:
            raise target.build_missing_error(project) from None
        raise
