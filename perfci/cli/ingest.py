"""``perfci ingest PATH...``: results of other tools become runs in the store."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import click

from perfci.cli.shared.context import current_config, open_store_to_write, write_json
from perfci.cli.shared.options import global_options, json_option
from perfci.formats import READER_MODULES, ImportDefaults
from perfci.history.derive_change_points import update_change_points
from perfci.model import Commit, Direction, PerfciError
from perfci.policies import build_policy
from perfci.report.number_format import format_count
from perfci.runner.git_repository import GitRepository
from perfci.service.incidents.local_incidents import evaluate_local_project
from perfci.service.uploads.import_files import ingest_path
from perfci.service.uploads.unresolved_units import parse_metric_unit
from perfci.store.queries.measurements import (
    load_change_points,
    load_latest_result_id,
    series_with_results_since,
)


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["auto", *READER_MODULES]),
    default="auto",
    help="auto: by content  [default]",
)
@click.option(
    "--commit", "sha", metavar="SHA", help="of files that name none  [default: HEAD of the repository here]"
)
@click.option("--machine", default="", metavar="NAME", help="of files that name none")
@click.option(
    "--direction", type=click.Choice(["lower", "higher"]), help="which is better, of files that do not say"
)
@click.option(
    "--metric", "meanings", multiple=True, metavar="NAME=UNIT:DIRECTION", help="what an unknown one means"
)
@json_option
@global_options
def command(
    paths: tuple[Path, ...],
    format_name: str,
    sha: str | None,
    machine: str,
    direction: Direction | None,
    metric_meanings: tuple[str, ...],
    json_file: str | None,
) -> None:
    """Read result files or folders; the same document twice is one run."""
    config = current_config()
    line = read_first_parent_line(Path.cwd())
    said = dict(map(parse_metric_unit, metric_meanings))
    given = ImportDefaults(config.project, find_commit(sha, line), machine, direction)
    reports = []
    with closing(open_store_to_write(config)) as store:
        with store.begin() as tx:
            before = load_latest_result_id(tx)
        for path in paths:
            report = ingest_path(store, path, format_name, given, line, said)
            reports.append(report)
            for warning in report.warnings:
                click.echo(f"  {warning}", err=True)
            click.echo(
                f"{path}: {report.runs_new} new runs, {report.runs_known} known, {report.values:,} values, "
                f"{report.samples:,} samples into project {config.project}",
                err=json_file == "-",
            )
        if any(report.runs_new for report in reports):
            with store.begin() as tx:
                series_ids = series_with_results_since(tx, config.project, before)
                update_change_points(tx, config.project, series_ids, build_policy(config))
                found = len(load_change_points(tx, config.project))
            evaluate_local_project(store, config)
            click.echo(
                f"{format_count(found, 'change point')} in the histories of {config.project}",
                err=json_file == "-",
            )
    if json_file:
        write_json(json_file, reports)


def read_first_parent_line(folder: Path) -> dict[str, Commit]:
    """The first-parent commits of the repository a folder lies in, by sha, the newest last; none outside of one."""
    with contextlib.suppress(PerfciError):
        return {commit.sha: commit for commit in GitRepository(folder).first_parent_commits("HEAD")}
    return {}


def find_commit(sha: str | None, line: Mapping[str, Commit]) -> Commit | None:
    """The commit a user names for files that name none, by default the newest at hand."""
    if sha is None:
        return list(line.values())[-1] if line else None
    found = [commit for full, commit in line.items() if full.startswith(sha.lower())]
    if len(found) == 1:
        return found[0]
    if len(sha) not in (40, 64) or set(sha.lower()) - set("0123456789abcdef"):
        raise PerfciError(
            f"--commit {sha}: expected a full sha, or the start of one on the line of HEAD here"
        )
    return Commit(sha.lower())
