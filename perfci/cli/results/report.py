"""``perfci report``: write what the store says as one file that opens without a server."""

from __future__ import annotations

import importlib.util
from datetime import UTC, datetime
from pathlib import Path

import click
from sqlalchemy.orm import Session

from perfci.cli.shared.options import global_options, parse_duration
from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import run_read_transaction
from perfci.model import PerfciError
from perfci.project_policies import build_project_policies
from perfci.report.html_report.render_report import render_report
from perfci.report.html_report.report_contents import StaticReport
from perfci.service.load_static_report import ReportWindow, load_static_report
from perfci.store.projects import Project

DEFAULT_SERIES, MAX_SERIES = 12, 200


@click.command("report")
@click.option(
    "--html",
    "html_file",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="FILE",
    help="write the report to FILE",
)
@click.option("--since", default="", metavar="TIME", help="changes since 30d or 2026-05-04  [default: all]")
@click.option(
    "--series",
    "max_trends",
    type=click.IntRange(0, MAX_SERIES),
    default=DEFAULT_SERIES,
    show_default=True,
    help="draw at most this many series",
)
@global_options
def report_command(html_file: Path, since: str, max_trends: int) -> None:
    """Write a report of the project: open incidents, changes, a scorecard and trends.

    The file opens in any browser, without a server and without network.
    """
    now = datetime.now(UTC)
    window = parse_report_window(since, now)
    settings = current_config().settings

    def load(tx: Session, project: Project) -> StaticReport:
        policies = build_project_policies(settings, project)
        return load_static_report(tx, project, policies, window, now, max_trends=max_trends)

    text = render_report(run_read_transaction(load), _read_plotly_bundle())
    try:
        html_file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PerfciError(f"{html_file} cannot be written: {error.strerror}") from None
    click.echo(f"wrote {html_file}, {len(text.encode()) / 1e6:.1f} MB")


def parse_report_window(since: str, now: datetime) -> ReportWindow:
    """The time that ``--since`` means; all where it is empty."""
    if not since:
        return ReportWindow()
    if duration_s := parse_duration(since, "d"):
        return ReportWindow.last_days(round(duration_s / 86400), now)
    try:
        return ReportWindow.since_day(datetime.strptime(since, "%Y-%m-%d").replace(tzinfo=UTC))
    except ValueError:
        raise PerfciError(
            f"--since takes a number of days like 30d or a day like 2026-05-04, not {since!r}."
        ) from None


def _read_plotly_bundle() -> str:
    """Read the plotly.js that the dashboard serves, without importing the dashboard."""
    spec = importlib.util.find_spec("perfci_web")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for bundle in Path(folder).glob("static/vendor/plotly-basic-*.min.js"):
            return bundle.read_text(encoding="utf-8")
    raise PerfciError(
        "The plotly.js of the dashboard is missing from this installation: install perfci anew."
    )
