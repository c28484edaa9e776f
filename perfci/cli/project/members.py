"""``perfci project grant``, ``withdraw`` and ``members``: who may see and change a project."""

from __future__ import annotations

import click

from perfci.auth.permissions import ProjectRole
from perfci.cli.shared.accounts_backend import (
    all_projects_option,
    backend_option,
    current_project_unless_all,
    open_accounts_backend,
)
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.model import PerfciError


@click.command("grant")
@click.argument("member")
@click.argument("role", type=click.Choice([role.value for role in ProjectRole]))
@all_projects_option
@backend_option
@global_options
def grant_command(member: str, role: str, all_projects: bool, server: str) -> None:
    """Give MEMBER (github/NUMBER or proxy/NAME) a role: reader, sheriff or admin."""
    project = current_project_unless_all(all_projects)
    with open_accounts_backend(server, writes=True) as backend:
        backend.set_member_role(project, member, ProjectRole(role))
    click.echo(f"{member} is {role} of {project or 'all projects'}")


@click.command("withdraw")
@click.argument("member")
@all_projects_option
@backend_option
@global_options
def withdraw_command(member: str, all_projects: bool, server: str) -> None:
    """Remove the role of MEMBER and revoke the tokens that MEMBER created."""
    with open_accounts_backend(server, writes=True) as backend:
        if not backend.remove_member(current_project_unless_all(all_projects), member):
            raise PerfciError(f"{member} is not a member: see `perfci project members`.")
    click.echo(f"{member} is no longer a member")


@click.command("members")
@all_projects_option
@backend_option
@json_option
@global_options
def members_command(all_projects: bool, server: str, json_file: str | None) -> None:
    """List members and their roles."""
    with open_accounts_backend(server) as backend:
        members = backend.list_members(current_project_unless_all(all_projects))
    if json_file:
        write_json(json_file, [member.model_dump(mode="json") for member in members])
    if json_file != "-":
        for member in members:
            click.echo(f"{member.role:<8} {member.member}  {member.name}")
        if not members:
            click.echo("no members")
