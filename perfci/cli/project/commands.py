"""``perfci project``: make projects, say who may see them, and who may do what in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from perfci.auth.permissions import ProjectRole
from perfci.cli.project.repository_binding import BINDING_COMMANDS
from perfci.cli.shared.backend import backend_option, open_backend, parse_request
from perfci.cli.shared.context import current_config, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.config import check_project_name, load_project_tables
from perfci.model import PerfciError
from perfci.net.shapes.access import ProjectPatch
from perfci.net.shapes.runs import Visibility
from perfci.store.projects import PRIVATE, PUBLIC

VISIBILITY_CHOICE = click.Choice([PUBLIC, PRIVATE])
TOML_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
all_projects_option = click.option(
    "--all-projects", is_flag=True, help="in every project of this store, not only one"
)


@click.group("project")
@global_options
def command() -> None:
    """Make projects, and say who may see and change them."""


for one in BINDING_COMMANDS:
    command.add_command(one)


@command.command("create")
@click.argument("name")
@click.option("--visibility", type=VISIBILITY_CHOICE, default=PRIVATE, show_default=True)
@backend_option
@global_options
def create_command(name: str, visibility: Visibility, server: str) -> None:
    """Add a project; one is also added by the first run that is measured here for it."""
    with open_backend(server, writes=True) as registry:
        registry.create_project(check_project_name(name), visibility)
    click.echo(f"{name} is there, and {visibility}")


@command.command("list")
@backend_option
@json_option
@global_options
def list_command(server: str, json_file: str | None) -> None:
    """Show the projects of this store or server."""
    with open_backend(server) as registry:
        found = registry.list_projects()
    if json_file:
        write_json(json_file, [one.model_dump(mode="json", exclude_none=True) for one in found])
    if json_file != "-":
        for one in found:
            click.echo(f"{one.visibility:<8} {one.project}{' (archived)' if one.archived else ''}")


@command.command("set")
@click.argument("name")
@click.option("--visibility", type=VISIBILITY_CHOICE, default=None)
@click.option("--archived/--not-archived", default=None, help="shown as before, but takes nothing new")
@click.option("--judged-by", type=TOML_FILE, help="a perfci.toml whose tables go before the server's")
@click.option("--judged-as-others", is_flag=True, help="by the tables of the server again")
@backend_option
@global_options
def set_command(
    name: str, judged_by: Path | None, judged_as_others: bool, server: str, **changes: Any
) -> None:
    """Change who may see a project and by what it is judged, or put it away."""
    if judged_by or judged_as_others:
        changes["settings"] = load_project_tables(judged_by) if judged_by else {}
    change = parse_request(ProjectPatch, **changes)
    if change == ProjectPatch():
        raise PerfciError(
            "Say what to change: --visibility, --archived, --not-archived, --judged-by FILE or --judged-as-others."
        )
    with open_backend(server, writes=True) as registry:
        after = registry.change_project(name, change)
    tables = " and ".join(f"[{table}]" for table in after.settings.model_dump(exclude_none=True))
    told = f"; judged by its own {tables}" if tables else ""
    click.echo(f"{name} is {after.visibility}{' and archived' if after.archived else ''}{told}")


@command.command("grant")
@click.argument("member")
@click.argument("role", type=click.Choice([role.value for role in ProjectRole]))
@all_projects_option
@backend_option
@global_options
def grant_command(member: str, role: str, all_projects: bool, server: str) -> None:
    """Give MEMBER (github/NUMBER or proxy/NAME) a role: reader, sheriff or admin."""
    place = _project_or_all(all_projects)
    with open_backend(server, writes=True) as registry:
        registry.set_member(place, member, ProjectRole(role))
    click.echo(f"{member} is {role} of {place or 'all projects'}")


@command.command("withdraw")
@click.argument("member")
@all_projects_option
@backend_option
@global_options
def withdraw_command(member: str, all_projects: bool, server: str) -> None:
    """Take the role of MEMBER away, and the tokens MEMBER made."""
    with open_backend(server, writes=True) as registry:
        if not registry.remove_member(_project_or_all(all_projects), member):
            raise PerfciError(f"{member} is no member here: see `perfci project members`.")
    click.echo(f"{member} is no member any more")


@command.command("members")
@all_projects_option
@backend_option
@json_option
@global_options
def members_command(all_projects: bool, server: str, json_file: str | None) -> None:
    """Show who has a role."""
    with open_backend(server) as registry:
        found = registry.list_members(_project_or_all(all_projects))
    if json_file:
        write_json(json_file, [one.model_dump(mode="json") for one in found])
    if json_file != "-":
        for one in found:
            click.echo(f"{one.role:<8} {one.member}  {one.name}")
        if not found:
            click.echo("nobody has a role here")


def _project_or_all(all_projects: bool) -> str | None:
    return None if all_projects else current_config().project
