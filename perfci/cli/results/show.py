"""``perfci show``: what a commit came to, or what lies between two commits."""

from __future__ import annotations

from contextlib import closing

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config, current_repository
from perfci.cli.shared.store_and_machine_lock import open_store_to_read
from perfci.model import PerfciError
from perfci.project_policies import build_policy
from perfci.report.commits.commit_results import CommitReport
from perfci.report.commits.commit_results_text import (
    format_commit_report,
    format_commit_report_markdown,
    select_reported_results,
    serialize_commit_report,
    serialize_commit_result,
)
from perfci.service.load_commit_report import find_measured_commit, load_commit_report


@click.command("show")
@click.argument("revisions", nargs=-1, metavar="[REV [REV]]")
@click.option("--only", type=click.Choice(["worse"]), help="only what got worse or failed")
@click.option("--markdown", is_flag=True, help="a Markdown table, for an issue or a pull request")
@json_option
@global_options
def show_command(revisions: tuple[str, ...], only: str | None, markdown: bool, json_file: str | None) -> None:
    """Show level, spread and change of every series at a commit.

    REV is a commit, branch or tag (the newest measured commit when absent); its values are compared with
    the commit measured before it. With two, the second is compared with the first.
    """
    if len(revisions) > 2:
        raise PerfciError(f"perfci show takes one or two commits, not {len(revisions)}")
    report = _load_report(revisions)
    only_worse = only == "worse"
    if json_file:
        values = serialize_commit_report(report)
        if only_worse:
            values["values"] = [
                serialize_commit_result(row) for row in select_reported_results(report, only_worse=True)
            ]
        write_json(json_file, values)
    if json_file != "-":
        render = format_commit_report_markdown if markdown else format_commit_report
        click.echo(render(report, only_worse=only_worse))


def _load_report(revisions: tuple[str, ...]) -> CommitReport:
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        commits = [find_measured_commit(tx, config.project, _resolve_sha(rev)) for rev in revisions or ("",)]
        base = commits[0] if len(commits) == 2 else None
        return load_commit_report(tx, config.project, commits[-1], build_policy(config.settings), base)


def _resolve_sha(revision: str) -> str:
    """The full sha of a revision of this repository; what it does not know may still be stored."""
    if not revision:
        return ""
    try:
        return current_repository().resolve_revision(revision)
    except PerfciError:
        return revision
