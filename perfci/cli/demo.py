"""``perfci demo``: measure a sample repository with known regressions and score the detection."""

from __future__ import annotations

from pathlib import Path

import click

from perfci.cli.serve import override_server_settings, serve_dashboard
from perfci.cli.shared.options import global_options
from perfci.cli.shared.terminal_progress import TerminalProgress
from perfci.demo.detection_score import (
    DetectionScore,
    format_detection_errors,
    format_inconclusive_verdicts,
    format_score_table,
    score_verdicts,
)
from perfci.demo.measure_sample_repository import (
    DemoResults,
    load_demo_results,
    load_sample_config,
    measure_sample_repository,
    prepare_sample_repository,
)
from perfci.demo.sample_repository import read_planted_changes
from perfci.number_format import format_percent


@click.command("demo")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="port of the dashboard; 0: a free one")
@click.option("--no-serve", is_flag=True, help="exit after the table")
@click.option("--fresh", is_flag=True, help="measure again, even if a measured store exists")
@global_options
def demo_command(port: int, no_serve: bool, fresh: bool) -> int:
    """Measure a sample repository of 24 commits with real torch, and detect the planted changes.

    Exit code 0 only if every planted change was found at its own commit and nothing else was reported.
    """
    repository = prepare_sample_repository(Path.cwd(), fresh=fresh)
    config = load_sample_config(repository)
    progress = TerminalProgress()
    progress.report(f"the sample repository is {repository.root}")
    if not measure_sample_repository(repository, config, progress):
        progress.report("already measured; --fresh measures again")
    results = load_demo_results(repository, config)
    score = score_verdicts(read_planted_changes(repository.root), results.verdicts)
    click.echo(format_demo_results(score, results))
    if no_serve:
        click.echo(
            "\nThe dashboard of these results: the same command without --no-serve measures nothing anew."
        )
    else:
        serve_dashboard(override_server_settings(config, {"port": port}), read_only=True)
    return 0 if score.is_perfect else 1


def format_demo_results(score: DetectionScore, results: DemoResults) -> str:
    """The table of planted changes, what went wrong, and the noise of this machine."""
    commits = dict(results.commits)
    parts = [
        format_score_table(score, commits),
        *format_detection_errors(score, commits),
        *format_inconclusive_verdicts(score, commits),
    ]
    detected = len(score.detections) - len(score.missed_changes)
    parts += [
        f"{detected} of {len(score.detections)} planted changes found at their own commit, "
        f"{len(score.false_alarms)} false alarms among {len(commits)} commits.",
        format_noise_floors(results),
        "For your own repository:\n  perfci init\n  perfci run --smoke && perfci compare HEAD~1 --smoke",
    ]
    return "\n\n".join(part for part in parts if part)


def format_noise_floors(results: DemoResults) -> str:
    """The noise floor and the smallest detectable change of every benchmark."""
    lines = [
        "This machine, per benchmark: noise floor of 10 pairs, smallest change it could confirm",
    ]
    for series, floor in sorted(results.noise_floor.items(), key=lambda item: item[0].label):
        smallest = format_percent(results.minimum_detectable_effect[series])
        lines.append(f"  {series.label}: {format_percent(floor)}, {smallest}")
    return "\n".join(lines)
