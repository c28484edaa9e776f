"""``perfci ingest PATH...``: results of other tools become runs in the store."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from perfci.cli.context import config_here, store_to_write, write_json
from perfci.cli.options import global_options, json_option
from perfci.formats import FORMATS, Given
from perfci.model import Direction
from perfci.report.units import counting
from perfci.service.change_points import update_change_points
from perfci.service.ingest import commit_named, ingest_path, line_here
from perfci.service.judging import policy_of
from perfci.service.local_incidents import look_again
from perfci.service.resolving import meaning
from perfci.store.reads import change_points, newest_result, series_with_results_since


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@click.option(
    "--format", "format_name", type=click.Choice(["auto", *FORMATS]), default="auto", help="auto: by content  [default]"
)
@click.option("--commit", "sha", metavar="SHA", help="of files that name none  [default: HEAD of the repository here]")
@click.option("--machine", default="", metavar="NAME", help="of files that name none")
@click.option("--direction", type=click.Choice(["lower", "higher"]), help="which is better, of files that do not say")
@click.option("--metric", "meanings", multiple=True, metavar="NAME=UNIT:DIRECTION", help="what an unknown one means")
@json_option
@global_options
def command(
    paths: tuple[Path, ...],
    format_name: str,
    sha: str | None,
    machine: str,
    direction: Direction | None,
    meanings: tuple[str, ...],
    json_file: str | None,
) -> None:
    """Read result files or folders; the same document twice is one run."""
    config = config_here()
    line = line_here(Path.cwd())
    said = dict(map(meaning, meanings))
    given = Given(config.project, commit_named(sha, line), machine, direction)
    reports = []
    with closing(store_to_write(config)) as store:
        with store.begin() as tx:
            before = newest_result(tx)
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
                update_change_points(tx, config.project, series_ids, policy_of(config))
                found = len(change_points(tx, config.project))
            look_again(store, config)
            click.echo(f"{counting(found, 'change point')} in the histories of {config.project}", err=json_file == "-")
    if json_file:
        write_json(json_file, reports)
