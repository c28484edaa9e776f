"""``perfci project``: manage projects, their policy tables and members, and the repository bound to them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from perfci.auth.permissions import ProjectRole
from perfci.cli.shared.accounts_backend import (
    all_projects_option,
    backend_option,
    build_validated_request,
    current_project_unless_all,
    open_accounts_backend,
)
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import (
    local_user_audit_context,
    open_store_to_read,
    open_store_to_write,
)
from perfci.config import Config, check_project_name, load_project_override_tables
from perfci.model import PerfciError
from perfci.net.api_schemas.projects_and_access import NewRepositoryBinding, ProjectPatch, Visibility
from perfci.net.github_job_auth import fetch_id_token
from perfci.service.accounts import repository_bindings
from perfci.service.accounts.projects_members_tokens import require_project
from perfci.service.uploads.send_to_server import build_api_client
from perfci.store.access import github_bindings
from perfci.store.projects import PRIVATE, PUBLIC

DEFAULT_WORKFLOW = ".github/workflows/perf.yml"
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


@project_group.command("grant")
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


@project_group.command("withdraw")
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


@project_group.command("members")
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


@project_group.command("bind")
@click.argument("slug", metavar="OWNER/NAME")
@click.option(
    "--repository-id", type=int, required=True, help="GitHub's id of it: gh api repos/OWNER/NAME -q .id"
)
@click.option(
    "--owner-id", type=int, required=True, help="id of its owner: gh api repos/OWNER/NAME -q .owner.id"
)
@click.option(
    "--workflow", default=DEFAULT_WORKFLOW, show_default=True, help="the only workflow allowed to upload"
)
@click.option("--environment", default="", help="GitHub environment the jobs must use")
@click.option(
    "--ref",
    "refs",
    multiple=True,
    default=("main",),
    show_default=True,
    help="refs whose results enter the history",
)
@click.option("--server", metavar="URL", default="", help="bind on this server  [default: the local store]")
@global_options
def bind_command(server: str, **choices: Any) -> None:
    """Let the jobs of one GitHub repository upload without a stored token.

    On a server, an admin of the project runs this in a job of that repository, which proves with
    `permissions: id-token: write` that it is one. An admin of all projects needs no proof.
    """
    config = current_config()
    if server:
        _bind_on_server(config, server.rstrip("/"), choices)
    else:
        bound = repository_bindings.validate_bound_repository(**choices)
        with closing(open_store_to_write(config)) as store, store.begin() as tx:
            project = require_project(tx, config.project)
            repository_bindings.bind_repository(
                tx, local_user_audit_context(), project, bound, "server admin"
            )
    click.echo(f"jobs of {choices['workflow']} in {choices['slug']} may upload to {config.project}")


def _bind_on_server(config: Config, server: str, choices: Mapping[str, Any]) -> None:
    """Bind with the token in PERFCI_TOKEN, and with what GitHub signs of this job if it does."""
    job = config.github
    proof = None
    if job is not None and job.id_token_url:
        proof = fetch_id_token(job.id_token_url, job.id_token_secret.get_secret_value(), server)
    slug, environment = choices["slug"], choices["environment"] or None
    fields = {name: value for name, value in choices.items() if name not in ("slug", "environment")}
    request = build_validated_request(
        NewRepositoryBinding, repository=slug, environment=environment, proof=proof, **fields
    )
    with closing(build_api_client(config, server)) as client:
        client.bind_repository(config.project, request)


@project_group.command("unbind")
@global_options
def unbind_command() -> None:
    """Let no jobs upload any more, and revoke the tokens they were given."""
    config = current_config()
    with closing(open_store_to_write(config)) as store, store.begin() as tx:
        project = require_project(tx, config.project)
        if not repository_bindings.unbind_repository(tx, local_user_audit_context(), project):
            raise PerfciError(f"{config.project} is not bound to a repository.")
    click.echo(f"no jobs may upload to {config.project} any more")


@project_group.command("repository")
@json_option
@global_options
def show_repository_command(json_file: str | None) -> None:
    """Show the repository whose jobs may upload."""
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        bound = github_bindings.find_repository_of_project(tx, require_project(tx, config.project).id)
    if json_file:
        write_json(json_file, github_bindings.repository_columns(bound) if bound else None)
    if json_file == "-":
        return
    if bound is None:
        click.echo(f"{config.project} is not bound to a repository: see `perfci project bind --help`")
        return
    click.echo(f"repository   {bound.slug} (id {bound.repository_id}, owner {bound.owner_id})")
    click.echo(f"workflow     {bound.workflow}")
    click.echo(f"environment  {bound.environment or 'any'}")
    click.echo(f"history from {', '.join(bound.history_refs) or 'no ref'}")
