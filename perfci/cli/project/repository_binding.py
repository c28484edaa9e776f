"""``perfci project bind``, ``unbind`` and ``repository``: which repository may upload to a project."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict

import click

from perfci.cli.shared.context import current_config, open_store_to_read, open_store_to_write, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.project_transaction import local_audit_context
from perfci.model import PerfciError
from perfci.service.accounts import repository_bindings
from perfci.service.accounts.backends import require_project
from perfci.store.access import github_bindings

DEFAULT_WORKFLOW = ".github/workflows/perf.yml"


@click.command("bind")
@click.argument("repository", metavar="OWNER/NAME")
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
@global_options
def bind_command(
    repository: str, repository_id: int, owner_id: int, workflow: str, environment: str, refs: tuple[str, ...]
) -> None:
    """Let the jobs of one GitHub repository upload without a stored token."""
    bound = repository_bindings.build_bound_repository(
        repository, repository_id, owner_id, workflow, environment, refs
    )
    config = current_config()
    with closing(open_store_to_write(config)) as store, store.begin() as tx:
        project = require_project(tx, config.project)
        repository_bindings.bind_repository(tx, local_audit_context(), project, bound)
    click.echo(f"jobs of {workflow} in {repository} may upload to {config.project}")


@click.command("unbind")
@global_options
def unbind_command() -> None:
    """Let no jobs upload any more, and revoke the tokens they were given."""
    config = current_config()
    with closing(open_store_to_write(config)) as store, store.begin() as tx:
        project = require_project(tx, config.project)
        if not repository_bindings.unbind_repository(tx, local_audit_context(), project):
            raise PerfciError(f"{config.project} is not bound to a repository.")
    click.echo(f"no jobs may upload to {config.project} any more")


@click.command("repository")
@json_option
@global_options
def show_command(json_file: str | None) -> None:
    """Show the repository whose jobs may upload."""
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        bound = github_bindings.find_bound_repository(tx, require_project(tx, config.project).id)
    if json_file:
        write_json(json_file, asdict(bound) if bound else None)
    if json_file == "-":
        return
    if bound is None:
        click.echo(f"{config.project} is not bound to a repository: see `perfci project bind --help`")
        return
    click.echo(f"repository   {bound.slug} (id {bound.repository_id}, owner {bound.owner_id})")
    click.echo(f"workflow     {bound.workflow}")
    click.echo(f"environment  {bound.environment or 'any'}")
    click.echo(f"history from {', '.join(bound.refs) or 'no ref'}")


BINDING_COMMANDS = (bind_command, unbind_command, show_command)
