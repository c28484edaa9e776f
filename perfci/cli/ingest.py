"""``perfci ingest PATH...``: import results of other tools as runs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import click

from perfci.cli.shared.command_output import write_json
from perfci.cli.shared.judge_new_results import judge_new_results
from perfci.cli.shared.options import global_options, json_option
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.result_file_options import build_file_reading_context, result_file_options
from perfci.cli.shared.store_and_machine_lock import open_store_to_write
from perfci.model import Direction
from perfci.number_format import format_count
from perfci.service.uploads.import_files import import_file_or_folder
from perfci.service.uploads.resolve_units import parse_metric_option
from perfci.store.queries.measured_series import load_latest_result_id


@click.command("ingest")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="PATH...")
@result_file_options
@json_option
@global_options
def ingest_command(
    paths: tuple[Path, ...],
    format_name: str,
    revision: str | None,
    machine: str,
    direction: Direction | None,
    metric_meanings: tuple[str, ...],
    json_file: str | None,
) -> None:
    """Import result files or folders; a document that was imported before adds nothing."""
    config = current_config()
    reading = build_file_reading_context(config, revision, machine, direction)
    units = dict(map(parse_metric_option, metric_meanings))
    reports = []
    with closing(open_store_to_write(config)) as store:
        with store.begin() as tx:
            before = load_latest_result_id(tx)
        for path in paths:
            report = import_file_or_folder(
                store, path, format_name, reading.defaults, reading.known_commits, units
            )
            reports.append(report)
            for warning in report.warnings:
                click.echo(f"  {warning}", err=True)
            click.echo(
                f"{path}: {format_count(report.runs_new, 'new run')}, {report.runs_known} already stored, "
                f"{format_count(report.values, 'value')}, {format_count(report.samples, 'sample')} "
                f"into project {config.project}",
                err=json_file == "-",
            )
        if any(report.runs_new or report.resolved for report in reports):
            count = format_count(judge_new_results(store, config, before), "change point")
            click.echo(f"{count} in the histories of {config.project}", err=json_file == "-")
    if json_file:
        write_json(json_file, reports)
