"""``perfci token``: create, list and revoke API tokens."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from perfci.auth.permissions import Scope
from perfci.cli.shared.accounts_backend import (
    all_projects_option,
    backend_option,
    build_validated_request,
    current_project_unless_all,
    open_accounts_backend,
)
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option, parse_days
from perfci.model import PerfciError
from perfci.net.api_schemas.projects_and_access import NewToken, ScopeName
from perfci.service.accounts.projects_members_tokens import DEFAULT_TOKEN_DAYS, MAX_TOKEN_DAYS


@click.group("token")
@global_options
def token_group() -> None:
    """Create, list and revoke API tokens of a project."""


@token_group.command("create")
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
    """Create a token and print it once."""
    project = current_project_unless_all(all_projects)
    unique = tuple(sorted(set(scopes)))
    label = name or ", ".join(unique)
    days = parse_days(expires)
    if days is None:
        raise PerfciError(f"A number of days was expected, such as 90d, not {expires!r}.")
    if not 1 <= days <= MAX_TOKEN_DAYS:
        raise PerfciError(f"A token lives for 1 to {MAX_TOKEN_DAYS} days, not {days}.")
    request = build_validated_request(NewToken, name=label, scopes=unique, days=days)
    with open_accounts_backend(server, writes=True) as backend:
        created = backend.create_token(project, request)
    click.echo(
        f"token {created.token.uid} of {project or 'all projects'}, "
        f"until {created.token.expires_at:%Y-%m-%d}; keep it now, it is not shown again:",
        err=True,
    )
    click.echo(created.secret)


@token_group.command("list")
@all_projects_option
@backend_option
@json_option
@global_options
def list_command(all_projects: bool, server: str, json_file: str | None) -> None:
    """List the tokens of a project without their secrets."""
    with open_accounts_backend(server) as backend:
        tokens = backend.list_tokens(current_project_unless_all(all_projects))
    if json_file:
        write_json(json_file, [token.model_dump(mode="json") for token in tokens])
    if json_file == "-":
        return
    for token in tokens:
        used = f"last used {token.last_used_at:%Y-%m-%d %H:%M}" if token.last_used_at else "never used"
        scopes = " ".join(token.scopes)
        if token.revoked_at:
            state = f"revoked {token.revoked_at:%Y-%m-%d}"
        else:
            word = "until" if token.expires_at > datetime.now(UTC) else "expired"
            state = f"{word} {token.expires_at:%Y-%m-%d}"
        click.echo(f"{token.uid}  {state:<20}  {scopes}  …{token.last4}  {used}  {token.name}")
    if not tokens:
        click.echo("no tokens here")


@token_group.command("revoke")
@click.argument("uid")
@all_projects_option
@backend_option
@global_options
def revoke_command(uid: str, all_projects: bool, server: str) -> None:
    """Revoke a token, and the tokens that were created with it."""
    with open_accounts_backend(server, writes=True) as backend:
        if not backend.revoke_token(current_project_unless_all(all_projects), uid):
            raise PerfciError(f"There is no token {uid} here: see `perfci token list`.")
    click.echo(f"token {uid} is revoked")
