"""``perfci ingest PATH...``: import results of other tools as runs."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import open_store_to_write
from perfci.formats.format_registry import READER_MODULES
from perfci.formats.format_types import ImportDefaults
from perfci.history.series_histories import update_change_points
from perfci.model import Commit, Direction, PerfciError
from perfci.project_policies import build_policy
from perfci.report.number_format import format_count
from perfci.runner.git_repository import GitRepository
from perfci.service.incidents.reconcile_incidents import evaluate_and_reconcile
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.service.uploads.results_without_unit import parse_metric_unit
from perfci.store.queries.measured_series import load_latest_result_id, load_series_ids_with_results_since
from perfci.store.verdicts_and_change_points import load_change_points


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["auto", *READER_MODULES]),
    default="auto",
    help="auto: by content  [default]",
)
@click.option("--commit", "sha", metavar="SHA", help="commit of files that name none  [default: HEAD]")
@click.option("--machine", default="", metavar="NAME", help="machine of files that name none")
@click.option(
    "--direction",
    type=click.Choice(["lower", "higher"]),
    help="the better direction, for files that do not state it",
)
@click.option(
    "--metric",
    "metric_meanings",
    multiple=True,
    metavar="NAME=UNIT:DIRECTION",
    help="unit and direction of an unknown metric",
)
@json_option
@global_options
def ingest_command(
    paths: tuple[Path, ...],
    format_name: str,
    sha: str | None,
    machine: str,
    direction: Direction | None,
    metric_meanings: tuple[str, ...],
    json_file: str | None,
) -> None:
    """Import result files or folders; a document that was imported before adds nothing."""
    config = current_config()
    commits = list_first_parent_commits(Path.cwd())
    units = dict(map(parse_metric_unit, metric_meanings))
    defaults = ImportDefaults(config.project, resolve_default_commit(sha, commits), machine, direction)
    reports = []
    with closing(open_store_to_write(config)) as store:
        with store.begin() as tx:
            before = load_latest_result_id(tx)
        for path in paths:
            report = import_file_or_folder(store, path, format_name, defaults, commits, units)
            reports.append(report)
            for warning in report.warnings:
                click.echo(f"  {warning}", err=True)
            click.echo(
                f"{path}: {report.runs_new} new runs, {report.runs_known} already stored, "
                f"{report.values:,} values, {report.samples:,} samples into project {config.project}",
                err=json_file == "-",
            )
        if any(report.runs_new for report in reports):
            with store.begin() as tx:
                series_ids = load_series_ids_with_results_since(tx, config.project, before)
                update_change_points(tx, config.project, series_ids, build_policy(config.settings))
                change_points = load_change_points(tx, config.project)
            evaluate_and_reconcile(store, config)
            count = format_count(len(change_points), "change point")
            click.echo(f"{count} in the histories of {config.project}", err=json_file == "-")
    if json_file:
        write_json(json_file, reports)


def list_first_parent_commits(folder: Path) -> dict[str, Commit]:
    """First-parent commits of the repository around a folder, by sha, newest last; empty outside of one."""
    with contextlib.suppress(PerfciError):
        return {commit.sha: commit for commit in GitRepository(folder).list_first_parent_commits("HEAD")}
    return {}


def resolve_default_commit(sha: str | None, commits: Mapping[str, Commit]) -> Commit | None:
    """The commit for files that name none: of a sha or its beginning, by default the newest."""
    if sha is None:
        return list(commits.values())[-1] if commits else None
    matches = [commit for full, commit in commits.items() if full.startswith(sha.lower())]
    if len(matches) == 1:
        return matches[0]
    if len(sha) not in (40, 64) or set(sha.lower()) - set("0123456789abcdef"):
        raise PerfciError(
            f"--commit {sha}: expected a full sha, or the start of one on the line of HEAD here"
        )
    return Commit(sha.lower())
