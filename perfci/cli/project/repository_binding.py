"""``perfci project bind``, ``unbind`` and ``repository``: the repository whose jobs may upload."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import click

from perfci.cli.shared.accounts_backend import build_validated_request
from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import (
    local_user_audit_context,
    open_store_to_read,
    open_store_to_write,
)
from perfci.config import Config
from perfci.model import PerfciError
from perfci.net.api_schemas.projects_and_access import NewRepositoryBinding
from perfci.net.github_job_auth import fetch_id_token
from perfci.service.accounts import repository_bindings
from perfci.service.accounts.projects_members_tokens import require_project
from perfci.service.uploads.send_to_server import build_api_client
from perfci.store.access import github_bindings

DEFAULT_WORKFLOW = ".github/workflows/perf.yml"


@click.command("bind")
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
        bound = repository_bindings.build_bound_repository(**choices)
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


@click.command("unbind")
@global_options
def unbind_command() -> None:
    """Let no jobs upload any more, and revoke the tokens they were given."""
    config = current_config()
    with closing(open_store_to_write(config)) as store, store.begin() as tx:
        project = require_project(tx, config.project)
        if not repository_bindings.unbind_repository(tx, local_user_audit_context(), project):
            raise PerfciError(f"{config.project} is not bound to a repository.")
    click.echo(f"no jobs may upload to {config.project} any more")


@click.command("repository")
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
