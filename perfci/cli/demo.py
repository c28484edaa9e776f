"""``perfci demo``: the first ten minutes."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.serve import override_server_settings, serve_dashboard
from perfci.cli.shared.options import global_options
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.demo.detection_score import (
    DetectionScore,
    format_errors,
    format_inconclusive,
    format_score_table,
    score_verdicts,
)
from perfci.demo.measure_sample import (
    DemoResults,
    load_demo_results,
    load_sample_config,
    measure_sample,
    prepare_sample_repository,
)
from perfci.demo.sample_repository import read_planted_changes
from perfci.report.number_format import format_percent


@click.command("demo")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="of the dashboard; 0: a free one")
@click.option("--no-serve", is_flag=True, help="end after the table")
@click.option("--fresh", is_flag=True, help="measure again, though a measured store is there")
@global_options
def command(port: int, no_serve: bool, fresh: bool) -> int:
    """Measure a sample repository of 24 commits with real torch, and find what was planted in it.

    Exit code 0 only when everything planted was found at its own commit and nothing else was reported.
    """
    repository = prepare_sample_repository(Path.cwd(), fresh=fresh)
    config = load_sample_config(repository)
    progress = TerminalProgress()
    progress.report(f"the sample repository is {repository.root}")
    if not measure_sample(repository, config, progress):
        progress.report("it was measured before; --fresh measures it again")
    shown = load_demo_results(repository, config)
    result = score_verdicts(read_planted_changes(repository.root), shown.verdicts)
    click.echo(format_conclusion(result, shown))
    if not no_serve:
        serve_dashboard(override_server_settings(config, {"port": port}), read_only=True)
    return 0 if result.is_perfect else 1


def format_conclusion(result: DetectionScore, outcome: DemoResults) -> str:
    commits = dict(outcome.commits)
    parts = [
        format_score_table(result, commits),
        *format_errors(result, commits),
        *format_inconclusive(result, commits),
    ]
    found = len(result.detections) - len(result.misses)
    parts += [
        f"{found} of {len(result.detections)} planted changes found at their own commit, "
        f"{len(result.false_alarms)} false alarms among {len(commits)} commits.",
        format_noise(outcome),
        "For your own repository:\n  perfci init\n  perfci run --smoke && perfci compare HEAD~1 --smoke",
    ]
    return "\n\n".join(part for part in parts if part)


def format_noise(outcome: DemoResults) -> str:
    lines = [
        "This machine, per benchmark: noise floor (10 pairs of equal commits), smallest change it could convict"
    ]
    for series, floor in sorted(outcome.noise_floor.items(), key=lambda item: item[0].label):
        lines.append(
            f"  {series.label}: {format_percent(floor)}, {format_percent(outcome.minimum_detectable_effect[series])}"
        )
    return "\n".join(lines)
