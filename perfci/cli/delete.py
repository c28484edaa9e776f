"""``perfci delete``: delete runs, series or a whole project, with everything that hangs on them."""

from __future__ import annotations

import click

from perfci.cli.shared.accounts_backend import backend_option, open_accounts_backend
from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_config
from perfci.model import PerfciError

yes_option = click.option("--yes", is_flag=True, help="do not ask")

LATER = "on a server, its judge worker deletes the rows within minutes"


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
    """Delete runs by their keys (`perfci export runs` and GET .../runs show them).

    Their samples, verdicts, and names that nothing else has go as well.
    """
    project = current_config().project
    if not _is_confirmed(f"Delete {_count(keys, 'run')} of {project} for good?", yes):
        return
    with open_accounts_backend(server, writes=True) as backend:
        for key in keys:
            if not backend.delete_run(project, key):
                raise PerfciError(f"{project} has no run {key}.")
    click.echo(f"deleted {_count(keys, 'run')} of {project}; {LATER}")


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
        for identity in ids:
            if not backend.delete_series(project, identity):
                raise PerfciError(f"{project} has no series {identity}.")
    click.echo(f"deleted {len(ids)} series of {project}; {LATER}")


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
    click.echo(f"deleted {name}; {LATER}")


def _is_confirmed(question: str, yes: bool) -> bool:
    if yes or click.confirm(question):
        return True
    click.echo("nothing was deleted")
    return False


def _count(keys: tuple[str, ...], noun: str) -> str:
    return f"1 {noun}" if len(keys) == 1 else f"{len(keys)} {noun}s"
