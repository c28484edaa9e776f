"""``perfci project``: make projects, say who may see them, and who may do what in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from perfci.auth.permissions import Role
from perfci.cli.project.repository_binding import COMMANDS
from perfci.cli.shared.backend import said, server_option, the_registry
from perfci.cli.shared.context import config_here, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.config import project_name, tables_of_file
from perfci.model import PerfciError
from perfci.net.shapes.access import ProjectChange
from perfci.net.shapes.runs import Visibility
from perfci.store.projects import PRIVATE, PUBLIC

visibility = click.Choice([PUBLIC, PRIVATE])
TOML = click.Path(path_type=Path, exists=True, dir_okay=False)
everywhere_option = click.option("--all-projects", is_flag=True, help="in every project of this store, not only one")


@click.group("project")
@global_options
def command() -> None:
    """Make projects, and say who may see and change them."""


for one in COMMANDS:
    command.add_command(one)


@command.command("create")
@click.argument("name")
@click.option("--visibility", type=visibility, default=PRIVATE, show_default=True)
@server_option
@global_options
def create_command(name: str, visibility: Visibility, server: str) -> None:
    """Add a project; one is also added by the first run that is measured here for it."""
    with the_registry(server, writes=True) as registry:
        registry.create_project(project_name(name), visibility)
    click.echo(f"{name} is there, and {visibility}")


@command.command("list")
@server_option
@json_option
@global_options
def list_command(server: str, json_file: str | None) -> None:
    """Show the projects of this store or server."""
    with the_registry(server) as registry:
        found = registry.projects()
    if json_file:
        write_json(json_file, [one.model_dump(mode="json", exclude_none=True) for one in found])
    if json_file != "-":
        for one in found:
            click.echo(f"{one.visibility:<8} {one.project}{' (archived)' if one.archived else ''}")


@command.command("set")
@click.argument("name")
@click.option("--visibility", type=visibility, default=None)
@click.option("--archived/--not-archived", default=None, help="shown as before, but takes nothing new")
@click.option("--judged-by", type=TOML, help="a perfci.toml whose tables go before the server's")
@click.option("--judged-as-others", is_flag=True, help="by the tables of the server again")
@server_option
@global_options
def set_command(name: str, judged_by: Path | None, judged_as_others: bool, server: str, **asked: Any) -> None:
    """Change who may see a project and by what it is judged, or put it away."""
    if judged_by or judged_as_others:
        asked["settings"] = tables_of_file(judged_by) if judged_by else {}
    change = said(ProjectChange, **asked)
    if change == ProjectChange():
        raise PerfciError(
            "Say what to change: --visibility, --archived, --not-archived, --judged-by FILE or --judged-as-others."
        )
    with the_registry(server, writes=True) as registry:
        after = registry.change_project(name, change)
    tables = " and ".join(f"[{table}]" for table in after.settings.model_dump(exclude_none=True))
    told = f"; judged by its own {tables}" if tables else ""
    click.echo(f"{name} is {after.visibility}{' and archived' if after.archived else ''}{told}")


@command.command("grant")
@click.argument("member")
@click.argument("role", type=click.Choice([role.value for role in Role]))
@everywhere_option
@server_option
@global_options
def grant_command(member: str, role: str, all_projects: bool, server: str) -> None:
    """Give MEMBER (github/NUMBER or proxy/NAME) a role: reader, sheriff or admin."""
    place = _place(all_projects)
    with the_registry(server, writes=True) as registry:
        registry.set_member(place, member, Role(role))
    click.echo(f"{member} is {role} of {place or 'all projects'}")


@command.command("withdraw")
@click.argument("member")
@everywhere_option
@server_option
@global_options
def withdraw_command(member: str, all_projects: bool, server: str) -> None:
    """Take the role of MEMBER away, and the tokens MEMBER made."""
    with the_registry(server, writes=True) as registry:
        if not registry.remove_member(_place(all_projects), member):
            raise PerfciError(f"{member} is no member here: see `perfci project members`.")
    click.echo(f"{member} is no member any more")


@command.command("members")
@everywhere_option
@server_option
@json_option
@global_options
def members_command(all_projects: bool, server: str, json_file: str | None) -> None:
    """Show who has a role."""
    with the_registry(server) as registry:
        found = registry.members(_place(all_projects))
    if json_file:
        write_json(json_file, [one.model_dump(mode="json") for one in found])
    if json_file != "-":
        for one in found:
            click.echo(f"{one.role:<8} {one.member}  {one.name}")
        if not found:
            click.echo("nobody has a role here")


def _place(all_projects: bool) -> str | None:
    return None if all_projects else config_here().project
