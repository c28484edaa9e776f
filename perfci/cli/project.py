"""``perfci project``: make projects, say who may see them, and who may do what in them."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import click
from sqlalchemy.orm import Session

from perfci.auth.access import EVERYWHERE, LOCAL, Role
from perfci.cli.context import config_here, store_to_read, store_to_write, write_json
from perfci.cli.options import global_options, json_option
from perfci.cli.repository import COMMANDS
from perfci.cli.token import the_project
from perfci.config import project_name, tables_of_file
from perfci.model import PerfciError
from perfci.service import accounts
from perfci.service.accounts import Act
from perfci.store import access
from perfci.store.projects import PRIVATE, PUBLIC, create_project, projects

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
@global_options
def create_command(name: str, visibility: str) -> None:
    """Add a project; one is also added by the first run that is measured here for it."""
    with closing(store_to_write(config_here())) as store, store.begin() as tx:
        made = create_project(tx, project_name(name), visibility, (act := _act()).at)
        act.note(tx, "project.create", made.slug, made.id, {"visibility": visibility})
    click.echo(f"{name} is there, and {visibility}")


@command.command("list")
@json_option
@global_options
def list_command(json_file: str | None) -> None:
    """Show the projects of this store."""
    with closing(store_to_read(config_here())) as store, store.read() as tx:
        found = projects(tx)
    if json_file:
        fields = [
            {"project": one.slug, "visibility": one.visibility, "archived": one.archived, "settings": one.settings}
            for one in found
        ]
        write_json(json_file, fields)
    if json_file != "-":
        for one in found:
            click.echo(f"{one.visibility:<8} {one.slug}{' (archived)' if one.archived else ''}")


@command.command("set")
@click.argument("name")
@click.option("--visibility", type=visibility, default=None)
@click.option("--archived/--not-archived", default=None, help="shown as before, but takes nothing new")
@click.option(
    "--judged-by", type=TOML, help="a perfci.toml: its [judge], [history] and [[policy]] go before the server's"
)
@click.option("--judged-as-others", is_flag=True, help="by the tables of the server again")
@global_options
def set_command(
    name: str, visibility: str | None, archived: bool | None, judged_by: Path | None, judged_as_others: bool
) -> None:
    """Change who may see a project and by what it is judged, or put it away."""
    settings = tables_of_file(judged_by) if judged_by else {} if judged_as_others else None
    if visibility is None and archived is None and settings is None:
        raise PerfciError(
            "Say what to change: --visibility, --archived, --not-archived, --judged-by FILE or --judged-as-others."
        )
    with closing(store_to_write(config_here())) as store, store.begin() as tx:
        found = the_project(tx, name)
        accounts.change_project(tx, _act(), found, visibility=visibility, archived=archived, settings=settings)
        after = the_project(tx, name)
    tables = " and ".join(f"[{table}]" for table in after.settings)
    told = f"; judged by its own {tables}" if tables else ""
    click.echo(f"{name} is {after.visibility}{' and archived' if after.archived else ''}{told}")


@command.command("grant")
@click.argument("member")
@click.argument("role", type=click.Choice([role.value for role in Role]))
@everywhere_option
@global_options
def grant_command(member: str, role: str, all_projects: bool) -> None:
    """Give MEMBER (github/NUMBER or proxy/NAME) a role: reader, sheriff or admin."""
    config = config_here()
    with closing(store_to_write(config)) as store, store.begin() as tx:
        accounts.set_member(tx, _act(), _place(tx, config.project, all_projects), member, Role(role))
    click.echo(f"{member} is {role} of {'all projects' if all_projects else config.project}")


@command.command("withdraw")
@click.argument("member")
@everywhere_option
@global_options
def withdraw_command(member: str, all_projects: bool) -> None:
    """Take the role of MEMBER away, and the tokens MEMBER made."""
    config = config_here()
    with closing(store_to_write(config)) as store, store.begin() as tx:
        if not accounts.remove_member(tx, _act(), _place(tx, config.project, all_projects), member):
            raise PerfciError(f"{member} is no member here: see `perfci project members`.")
    click.echo(f"{member} is no member any more")


@command.command("members")
@everywhere_option
@json_option
@global_options
def members_command(all_projects: bool, json_file: str | None) -> None:
    """Show who has a role."""
    config = config_here()
    with closing(store_to_read(config)) as store, store.read() as tx:
        found = access.members(tx, _place(tx, config.project, all_projects))
    if json_file:
        fields = [{"member": one.user.address, "name": one.user.name, "role": one.role} for one in found]
        write_json(json_file, fields)
    if json_file != "-":
        for one in found:
            click.echo(f"{one.role:<8} {one.user.address}  {one.user.name}")
        if not found:
            click.echo("nobody has a role here")


def _place(tx: Session, name: str, all_projects: bool) -> int:
    return EVERYWHERE if all_projects else the_project(tx, name).id


def _act() -> Act:
    return Act(LOCAL, datetime.now(UTC))
