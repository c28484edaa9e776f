"""``perfci delete``: delete runs, series or a whole project, with everything that hangs on them."""

from __future__ import annotations

import click

from perfci.cli.shared.accounts_backend import backend_option, open_accounts_backend
from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_config
from perfci.model import PerfciError
from perfci.service.accounts.store_and_server_backends import AccountsBackend, ServerAccountsBackend

yes_option = click.option("--yes", is_flag=True, help="do not ask")


@click.group("delete")
@global_options
def delete_group() -> None:
    """Delete runs, series or a project, for good. A backup from before still holds them."""


@delete_group.command("run")
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@yes_option
@backend_option
@global_options
def delete_run_command(keys: tuple[str, ...], yes: bool, server: str) -> None:
    """Delete runs by their keys (GET .../runs of the API shows them).

    Their samples, verdicts, and names that nothing else has go as well.
    """
    project = current_config().project
    if not _is_confirmed(f"Delete {_count(keys, 'run')} of {project} for good?", yes):
        return
    with open_accounts_backend(server, writes=True) as backend:
        for count, key in enumerate(keys):
            if not backend.delete_run(project, key):
                raise _build_missing_error(f"{project} has no run {key}", count)
        _report_deletion(backend, f"{_count(keys, 'run')} of {project}")


@delete_group.command("series")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@yes_option
@backend_option
@global_options
def delete_series_command(ids: tuple[str, ...], yes: bool, server: str) -> None:
    """Delete series by their ids (GET .../series shows them), with all their results."""
    project = current_config().project
    if not _is_confirmed(f"Delete {len(ids)} series of {project} for good?", yes):
        return
    with open_accounts_backend(server, writes=True) as backend:
        for count, identity in enumerate(ids):
            if not backend.delete_series(project, identity):
                raise _build_missing_error(f"{project} has no series {identity}", count)
        _report_deletion(backend, f"{len(ids)} series of {project}")


@delete_group.command("project")
@click.argument("name")
@yes_option
@backend_option
@global_options
def delete_project_command(name: str, yes: bool, server: str) -> None:
    """Delete a project and everything in it; only the lines of its audit log stay."""
    question = f"Delete {name} with all its runs, verdicts and incidents for good?"
    if not _is_confirmed(question, yes):
        return
    with open_accounts_backend(server, writes=True) as backend:
        backend.delete_project(name)
        _report_deletion(backend, name)


def _build_missing_error(text: str, deleted: int) -> PerfciError:
    return PerfciError(f"{text}; those named before it are deleted." if deleted else f"{text}.")


def _report_deletion(backend: AccountsBackend, what: str) -> None:
    is_on_server = isinstance(backend, ServerAccountsBackend)
    later = "; the judge worker of the server removes the rows within minutes" if is_on_server else ""
    click.echo(f"deleted {what}{later}")


def _is_confirmed(question: str, yes: bool) -> bool:
    try:
        if yes or click.confirm(question):
            return True
    except click.Abort:
        raise PerfciError("nothing was deleted, since nobody answered; --yes does not ask.") from None
    click.echo("nothing was deleted")
    return False


def _count(keys: tuple[str, ...], noun: str) -> str:
    return f"1 {noun}" if len(keys) == 1 else f"{len(keys)} {noun}s"
