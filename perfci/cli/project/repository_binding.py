"""``perfci project bind``, ``unbind`` and ``repository``: whose jobs may upload to a project."""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime

import click

from perfci.auth.permissions import LOCAL
from perfci.cli.shared.context import current_config, open_store_to_read, open_store_to_write, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.model import PerfciError
from perfci.service.accounts import repository_bindings
from perfci.service.accounts.backends import require_project
from perfci.service.audit_context import AuditContext
from perfci.store.access import github_bindings

DEFAULT_WORKFLOW = ".github/workflows/perf.yml"


@click.command("bind")
@click.argument("repository", metavar="OWNER/NAME")
@click.option(
    "--repository-id", type=int, required=True, help="GitHub's number of it: gh api repos/OWNER/NAME -q .id"
)
@click.option(
    "--owner-id", type=int, required=True, help="of its owner: gh api repos/OWNER/NAME -q .owner.id"
)
@click.option("--workflow", default=DEFAULT_WORKFLOW, show_default=True, help="the only one whose jobs may")
@click.option("--environment", default="", help="that its jobs must run in")
@click.option(
    "--ref", "refs", multiple=True, default=("main",), show_default=True, help="that write the history"
)
@global_options
def bind_command(
    repository: str, repository_id: int, owner_id: int, workflow: str, environment: str, refs: tuple[str, ...]
) -> None:
    """Let the jobs of a GitHub repository upload without a token of their own, and no other repository's."""
    wanted = repository_bindings.build_bound_repository(
        repository, repository_id, owner_id, workflow, environment, refs
    )
    config = current_config()
    with closing(open_store_to_write(config)) as store, store.begin() as tx:
        repository_bindings.bind_repository(
            tx, _local_audit_context(), require_project(tx, config.project), wanted
        )
    click.echo(f"jobs of {workflow} in {repository} may upload to {config.project}")


@click.command("unbind")
@global_options
def unbind_command() -> None:
    """Let no jobs upload any more; the tokens they were given end."""
    config = current_config()
    with closing(open_store_to_write(config)) as store, store.begin() as tx:
        if not repository_bindings.unbind_repository(
            tx, _local_audit_context(), require_project(tx, config.project)
        ):
            raise PerfciError(f"{config.project} is bound to no repository.")
    click.echo(f"no jobs may upload to {config.project} any more")


@click.command("repository")
@json_option
@global_options
def show_command(json_file: str | None) -> None:
    """Show whose jobs may upload."""
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        found = github_bindings.find_bound_repository(tx, require_project(tx, config.project).id)
    if json_file:
        write_json(json_file, asdict(found) if found else None)
    if json_file == "-":
        return
    if found is None:
        click.echo(f"{config.project} is bound to no repository: see `perfci project bind --help`")
        return
    click.echo(f"repository   {found.slug} (id {found.repository_id}, owner {found.owner_id})")
    click.echo(f"workflow     {found.workflow}")
    click.echo(f"environment  {found.environment or 'any'}")
    click.echo(f"history from {', '.join(found.refs) or 'no ref'}")


BINDING_COMMANDS = (bind_command, unbind_command, show_command)


def _local_audit_context() -> AuditContext:
    return AuditContext(LOCAL, datetime.now(UTC))
