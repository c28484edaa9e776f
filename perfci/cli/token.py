"""``perfci token``: make, list and revoke the tokens that programs upload with."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime

import click
from sqlalchemy.orm import Session

from perfci.auth.access import EVERYWHERE, LOCAL, Scope
from perfci.cli.context import config_here, store_to_read, store_to_write, write_json
from perfci.cli.options import global_options, json_option
from perfci.model import PerfciError
from perfci.service import accounts
from perfci.service.accounts import DAYS, Act
from perfci.store.projects import Project, project
from perfci.store.tokens import Token, tokens_of

anywhere_option = click.option("--all-projects", is_flag=True, help="for every project of this store, not only one")


@click.group("token")
@global_options
def command() -> None:
    """Make, list and revoke tokens of a project."""


@command.command("create")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice([scope.value for scope in Scope]),
    multiple=True,
    required=True,
    help="may be repeated",
)
@click.option("--name", default="", help="what it is for, such as 'nightly'")
@click.option("--expires", default=f"{DAYS}d", show_default=True, metavar="DAYSd", help="at most 365d")
@anywhere_option
@global_options
def create_command(scopes: tuple[str, ...], name: str, expires: str, all_projects: bool) -> None:
    """Make a token and print it; nobody can see it again."""
    days, config = _days(expires), config_here()
    with closing(store_to_write(config)) as store, store.begin() as tx:
        place = None if all_projects else the_project(tx, config.project)
        wanted = {Scope(one) for one in scopes}
        made = accounts.create_token(tx, _act(), place, name or ", ".join(sorted(wanted)), wanted, days)
    click.echo(
        f"token {made.token.uid} of {place.slug if place else 'all projects'}, until {made.token.expires_at:%Y-%m-%d}; "
        "keep it now, it is not shown again:",
        err=True,
    )
    click.echo(made.text)


@command.command("list")
@anywhere_option
@json_option
@global_options
def list_command(all_projects: bool, json_file: str | None) -> None:
    """Show the tokens of a project: never the tokens themselves."""
    config = config_here()
    with closing(store_to_read(config)) as store, store.read() as tx:
        place = EVERYWHERE if all_projects else the_project(tx, config.project).id
        found = tokens_of(tx, place)
    if json_file:
        write_json(json_file, [_fields(one) for one in found])
    if json_file == "-":
        return
    for one in found:
        used = f"last used {one.last_used_at:%Y-%m-%d %H:%M}" if one.last_used_at else "never used"
        click.echo(f"{one.uid}  {_state(one):<20}  {' '.join(one.scopes)}  …{one.last4}  {used}  {one.name}")
    if not found:
        click.echo("no tokens here")


@command.command("revoke")
@click.argument("uid")
@anywhere_option
@global_options
def revoke_command(uid: str, all_projects: bool) -> None:
    """Make a token, and all that was made with it, stop working."""
    config = config_here()
    with closing(store_to_write(config)) as store, store.begin() as tx:
        place = EVERYWHERE if all_projects else the_project(tx, config.project).id
        if not accounts.revoke_token(tx, _act(), place, uid):
            raise PerfciError(f"There is no token {uid} here: see `perfci token list`.")
    click.echo(f"token {uid} is revoked")


def the_project(tx: Session, name: str) -> Project:
    found = project(tx, name)
    if found is None:
        raise PerfciError(f"There is no project {name} in this store: make it with `perfci project create {name}`.")
    return found


def _act() -> Act:
    return Act(LOCAL, datetime.now(UTC))


def _days(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,4})d", text)
    if not found:
        raise PerfciError(f"A number of days was expected, such as 90d, not {text!r}.")
    return int(found[1])


def _state(token: Token) -> str:
    if token.revoked_at:
        return f"revoked {token.revoked_at:%Y-%m-%d}"
    word = "until" if token.is_valid(datetime.now(UTC)) else "expired"
    return f"{word} {token.expires_at:%Y-%m-%d}"


def _fields(token: Token) -> dict[str, object]:
    shown = ("uid", "name", "last4", "scopes", "created_by", "created_at", "expires_at", "revoked_at", "last_used_at")
    moments = {name: getattr(token, name) for name in shown}
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in moments.items()}
