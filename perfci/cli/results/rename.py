"""``perfci rename``: let the history of a benchmark or machine go on under another name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import click
from sqlalchemy.orm import Session

from perfci.cli.shared.options import global_options
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import local_user_audit_context, open_store_to_write
from perfci.model import PerfciError
from perfci.report.number_format import format_count
from perfci.service.audit_context import AuditContext
from perfci.service.rename_benchmarks import (
    RenameOutcome,
    judge_renamed_series_again,
    rename_benchmark,
    rename_machine,
)
from perfci.store.projects import Project, find_project


@click.group("rename")
@global_options
def rename_group() -> None:
    """Join histories of what was renamed, here and for what still arrives under the old name.

    Run it where the store is, and start a server again afterwards.
    """


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
@global_options
def rename_benchmark_command(old: str, new: str, defaults: tuple[str, ...]) -> None:
    """Join the history of benchmark OLD to NEW; with the same name twice, only --default adds a parameter."""
    values = _parse_defaults(defaults)
    _rename(old, new, lambda tx, project, context: rename_benchmark(tx, context, project, old, new, values))


@rename_group.command("machine")
@click.argument("old")
@click.argument("new")
@global_options
def rename_machine_command(old: str, new: str) -> None:
    """Join what machine OLD measured to NEW, another machine or a new name; labels as pages show them."""
    _rename(old, new, lambda tx, project, context: rename_machine(tx, context, project, old, new))


def _rename(old: str, new: str, rename: Callable[[Session, Project, AuditContext], RenameOutcome]) -> None:
    config = current_config()
    with closing(open_store_to_write(config)) as store:
        with store.begin() as tx:
            project = find_project(tx, config.project)
            if project is None:
                raise PerfciError(f"There is no project {config.project} in this store.")
            outcome = rename(tx, project, local_user_audit_context())
        judge_renamed_series_again(store, config, outcome)
    series = format_count(len(outcome.series_ids), "series", "series")
    click.echo(f"{old} goes on as {new}: {format_count(outcome.results, 'result')} in {series}")


def _parse_defaults(texts: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, separator, value in pairs:
        if not (name and separator and value):
            raise PerfciError(f"--default {name!r}: NAME=VALUE was expected, for example dtype='fp32'")
    return {name: value for name, _, value in pairs}
