"""``perfci token``: make, list and revoke the tokens that programs upload with."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import click

from perfci.auth.permissions import Scope
from perfci.cli.shared.backend import backend_option, open_backend, parse_request
from perfci.cli.shared.context import current_config, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.model import PerfciError
from perfci.net.shapes.access import NewToken, ScopeName, TokenShape
from perfci.service.accounts.accounts import DEFAULT_TOKEN_DAYS, MAX_TOKEN_DAYS

all_projects_option = click.option(
    "--all-projects", is_flag=True, help="for every project of this store, not only one"
)


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
@click.option(
    "--expires",
    default=f"{DEFAULT_TOKEN_DAYS}d",
    show_default=True,
    metavar="DAYSd",
    help=f"at most {MAX_TOKEN_DAYS}d",
)
@all_projects_option
@backend_option
@global_options
def create_command(
    scopes: tuple[ScopeName, ...], name: str, expires: str, all_projects: bool, server: str
) -> None:
    """Make a token and print it; nobody can see it again."""
    asked = tuple(sorted(set(scopes)))
    wanted = parse_request(NewToken, name=name or ", ".join(asked), scopes=asked, days=_parse_days(expires))
    with open_backend(server, writes=True) as registry:
        made = registry.create_token(_project_or_all(all_projects), wanted)
    click.echo(
        f"token {made.token.uid} of {_project_or_all(all_projects) or 'all projects'}, until {made.token.expires_at:%Y-%m-%d}; "
        "keep it now, it is not shown again:",
        err=True,
    )
    click.echo(made.secret)


@command.command("list")
@all_projects_option
@backend_option
@json_option
@global_options
def list_command(all_projects: bool, server: str, json_file: str | None) -> None:
    """Show the tokens of a project: never the tokens themselves."""
    with open_backend(server) as registry:
        found = registry.list_tokens(_project_or_all(all_projects))
    if json_file:
        write_json(json_file, [one.model_dump(mode="json") for one in found])
    if json_file == "-":
        return
    for one in found:
        used = f"last used {one.last_used_at:%Y-%m-%d %H:%M}" if one.last_used_at else "never used"
        click.echo(
            f"{one.uid}  {_format_state(one):<20}  {' '.join(one.scopes)}  …{one.last4}  {used}  {one.name}"
        )
    if not found:
        click.echo("no tokens here")


@command.command("revoke")
@click.argument("uid")
@all_projects_option
@backend_option
@global_options
def revoke_command(uid: str, all_projects: bool, server: str) -> None:
    """Make a token, and all that was made with it, stop working."""
    with open_backend(server, writes=True) as registry:
        if not registry.revoke_token(_project_or_all(all_projects), uid):
            raise PerfciError(f"There is no token {uid} here: see `perfci token list`.")
    click.echo(f"token {uid} is revoked")


def _project_or_all(all_projects: bool) -> str | None:
    return None if all_projects else current_config().project


def _parse_days(text: str) -> int:
    found = re.fullmatch(r"([0-9]{1,4})d", text)
    if not found:
        raise PerfciError(f"A number of days was expected, such as 90d, not {text!r}.")
    if not 1 <= (days := int(found[1])) <= MAX_TOKEN_DAYS:
        raise PerfciError(f"A token lives for 1 to {MAX_TOKEN_DAYS} days, not {days}.")
    return days


def _format_state(token: TokenShape) -> str:
    if token.revoked_at:
        return f"revoked {token.revoked_at:%Y-%m-%d}"
    word = "until" if token.expires_at > datetime.now(UTC) else "expired"
    return f"{word} {token.expires_at:%Y-%m-%d}"
