"""``perfci project``: create, list and change projects; its other verbs have a module each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from perfci.cli.project.members import grant_command, members_command, withdraw_command
from perfci.cli.project.repository_binding import bind_command, show_repository_command, unbind_command
from perfci.cli.shared.accounts_backend import (
    backend_option,
    build_validated_request,
    open_accounts_backend,
)
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.config import check_project_name, load_project_override_tables
from perfci.model import PerfciError
from perfci.net.api_schemas.projects_and_access import ProjectPatch, Visibility
from perfci.store.projects import PRIVATE, PUBLIC

VISIBILITY_CHOICE = click.Choice([PUBLIC, PRIVATE])
TOML_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group("project")
@global_options
def project_group() -> None:
    """Manage projects and who may see and change them."""


@project_group.command("create")
@click.argument("name")
@click.option("--visibility", type=VISIBILITY_CHOICE, default=PRIVATE, show_default=True)
@backend_option
@global_options
def create_command(name: str, visibility: Visibility, server: str) -> None:
    """Create a project; the first run stored for one creates it as well."""
    with open_accounts_backend(server, writes=True) as backend:
        backend.create_project(check_project_name(name), visibility)
    click.echo(f"created {name} ({visibility})")


@project_group.command("list")
@backend_option
@json_option
@global_options
def list_command(server: str, json_file: str | None) -> None:
    """List the projects of this store or server."""
    with open_accounts_backend(server) as backend:
        projects = backend.list_projects()
    if json_file:
        write_json(json_file, [project.model_dump(mode="json", exclude_none=True) for project in projects])
    if json_file != "-":
        if not projects:
            click.echo("no projects: `perfci project create NAME` makes one")
        for project in projects:
            suffix = " (archived)" if project.archived else ""
            click.echo(f"{project.visibility:<8} {project.project}{suffix}")


@project_group.command("set")
@click.argument("name")
@click.option("--visibility", type=VISIBILITY_CHOICE, default=None)
@click.option("--archived/--not-archived", default=None, help="read-only")
@click.option("--judged-by", type=TOML_FILE, help="policy tables that override the server's")
@click.option("--judged-as-others", is_flag=True, help="use the server's policy tables")
@backend_option
@global_options
def set_command(
    name: str, judged_by: Path | None, judged_as_others: bool, server: str, **changes: Any
) -> None:
    """Change the visibility or policy tables of a project, or archive it."""
    if judged_by or judged_as_others:
        changes["settings"] = load_project_override_tables(judged_by) if judged_by else {}
    change = build_validated_request(ProjectPatch, **changes)
    if change == ProjectPatch():
        raise PerfciError(
            "Nothing to change: give --visibility, --archived, --not-archived, --judged-by FILE or "
            "--judged-as-others."
        )
    with open_accounts_backend(server, writes=True) as backend:
        project = backend.change_project(name, change)
    tables = " and ".join(f"[{table}]" for table in project.settings.model_dump(exclude_none=True))
    archived = " and archived" if project.archived else ""
    judged_by_own = f"; judged by its own {tables}" if tables else ""
    click.echo(f"{name} is {project.visibility}{archived}{judged_by_own}")


for command in (
    grant_command,
    withdraw_command,
    members_command,
    bind_command,
    unbind_command,
    show_repository_command,
):
    project_group.add_command(command)
