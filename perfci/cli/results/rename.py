"""``perfci rename``: let the history of a benchmark or machine go on under another name."""

from __future__ import annotations

from contextlib import closing

import click

from perfci.cli.shared.accounts_backend import backend_option
from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_config, find_configured_server
from perfci.cli.shared.store_and_machine_lock import local_user_audit_context, open_store_to_write
from perfci.config import Config
from perfci.model import PerfciError, freeze_named_values
from perfci.net.api_schemas.renames import NewRename, RenameResult
from perfci.number_format import format_count
from perfci.service.rename_benchmarks import (
    Rename,
    RenameOutcome,
    judge_renamed_series_again,
    preview_rename,
    rename_series,
)
from perfci.service.uploads.send_to_server import build_api_client
from perfci.store.projects import find_project

dry_run_option = click.option("--dry-run", is_flag=True, help="only say how much would move")


@click.group("rename")
@global_options
def rename_group() -> None:
    """Join histories of what was renamed, here and for what still arrives under the old name."""


@rename_group.command("benchmark")
@click.argument("old")
@click.argument("new")
@click.option(
    "--default",
    "defaults",
    multiple=True,
    metavar="NAME=VALUE",
    help="value of a parameter that was added, for the results from before",
)
@dry_run_option
@backend_option
@global_options
def rename_benchmark_command(
    old: str, new: str, defaults: tuple[str, ...], dry_run: bool, server: str
) -> None:
    """Join the history of benchmark OLD to NEW; with the same name twice, only --default adds a parameter."""
    values = freeze_named_values(parse_defaults(defaults))
    _rename(Rename("benchmark", old, new, values), dry_run, server)


@rename_group.command("machine")
@click.argument("old")
@click.argument("new")
@dry_run_option
@backend_option
@global_options
def rename_machine_command(old: str, new: str, dry_run: bool, server: str) -> None:
    """Join what machine OLD measured to NEW, another machine or a new name; labels as pages show them."""
    _rename(Rename("machine", old, new), dry_run, server)


def _rename(rename: Rename, dry_run: bool, server: str) -> None:
    config, address = current_config(), find_configured_server(server)
    outcome: RenameOutcome | RenameResult
    if address:
        outcome = _rename_on_server(config, address, rename, dry_run)
    else:
        outcome = _rename_in_store(config, rename, dry_run)
    click.echo(format_rename(rename, outcome, dry_run=dry_run))


def _rename_in_store(config: Config, rename: Rename, dry_run: bool) -> RenameOutcome:
    with closing(open_store_to_write(config)) as store:
        with store.begin() as tx:
            project = find_project(tx, config.project)
            if project is None:
                raise PerfciError(f"There is no project {config.project} in this store.")
            if dry_run:
                return preview_rename(tx, project, rename)
            outcome = rename_series(tx, local_user_audit_context(), project, rename)
        judge_renamed_series_again(store, config, outcome)
    return outcome


def _rename_on_server(config: Config, address: str, rename: Rename, dry_run: bool) -> RenameResult:
    body = NewRename(
        kind=rename.kind, old=rename.old, new=rename.new, defaults=dict(rename.defaults), dry_run=dry_run
    )
    with closing(build_api_client(config, address)) as client:
        return client.rename_series(config.project, body)


def format_rename(rename: Rename, outcome: RenameOutcome | RenameResult, *, dry_run: bool) -> str:
    """Say what moved, or would move, and what joins a history that the new name has."""
    series = format_count(outcome.series, "series", "series")
    joined = f", {outcome.joined} of which had results under the new name" if outcome.joined else ""
    verb = "would go on" if dry_run else "goes on"
    results = format_count(outcome.results, "result")
    return f"{rename.old} {verb} as {rename.new}: {results} in {series}{joined}"


def parse_defaults(texts: tuple[str, ...]) -> dict[str, str]:
    """Parse values of parameters, each as NAME=VALUE."""
    pairs = [text.partition("=") for text in texts]
    for name, separator, value in pairs:
        if not (name and separator and value):
            raise PerfciError(f"--default {name!r}: NAME=VALUE was expected, for example dtype='fp32'")
    return {name: value for name, _, value in pairs}
